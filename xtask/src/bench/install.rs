//! Bringing peers in, on request, by the ordinary clients of their registries.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::peers::{Peer, Source};
use crate::process::run;

/// Installs what is missing. Errors: a client fails; what is there stays.
pub(super) fn all(peers: &[&'static Peer]) -> Result<()> {
    for peer in peers {
        match &peer.source {
            Source::Built => {}
            Source::Apt { packages, program } => {
                if program_path(program).is_none() || peer.name == "nginx-lua" {
                    apt(packages)?;
                }
            }
            Source::Pip { package, version, program } => {
                let folder = folder(peer)?;
                if !folder.join("bin").join(program).exists() {
                    pip(&folder, &format!("{package}=={version}"))?;
                }
            }
        }
    }
    Ok(())
}

/// Where a peer's Python environment is, or would be.
pub(super) fn folder(peer: &Peer) -> Result<PathBuf> {
    let Source::Pip { version, .. } = peer.source else { bail!("{} is no Python package", peer.name) };
    let cache = match std::env::var_os("SLUICEGATE_BENCH") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let home =
                std::env::var_os("HOME").context("HOME is not set: set SLUICEGATE_BENCH to a folder")?;
            PathBuf::from(home).join(".cache/sluicegate-bench")
        }
    };
    Ok(cache.join(format!("{}-{version}", peer.name)))
}

/// A program on the path, or where system programs are.
pub(super) fn program_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    folders.into_iter().map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn apt(packages: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(["install", "-y", "--no-install-recommends"]).args(packages);
    run(command).context("packages of the system need root, and `apt-get update` once before")
}

fn pip(folder: &PathBuf, requirement: &str) -> Result<()> {
    println!("installing {requirement} into {}", folder.display());
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(folder);
    run(venv)?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", requirement]);
    run(pip)
}
