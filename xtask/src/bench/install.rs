//! Bringing peers in, on request, by the ordinary clients of their registries.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::peers::{Peer, Source};
use crate::process::run;

/// Installs what is missing. Returns what could not be installed, and why: the others are measured all the same.
pub(super) fn all(peers: &[&'static Peer]) -> Vec<String> {
    let tried = peers.iter().map(|peer| (peer.name, install(peer)));
    tried.filter_map(|(name, done)| Some(format!("{name} was not installed: {:#}", done.err()?))).collect()
}

fn install(peer: &Peer) -> Result<()> {
    match &peer.source {
        Source::Built => Ok(()),
        // Its program is there with nginx alone, its modules are not.
        Source::Apt { program, .. } if program_path(program).is_some() && peer.name != "nginx-lua" => Ok(()),
        Source::Apt { packages, .. } => apt(packages),
        Source::Pip { package, version, program } => {
            let folder = folder(peer)?;
            match folder.join("bin").join(program).exists() {
                true => Ok(()),
                false => pip(&folder, &format!("{package}=={version}")),
            }
        }
    }
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

/// A fresh machine has no list of packages yet, an old one an old list: then they are fetched first.
fn apt(packages: &[&str]) -> Result<()> {
    if run(apt_install(packages)).is_ok() {
        return Ok(());
    }
    run(apt_get(&["update", "-q"])).context("packages of the system need root")?;
    run(apt_install(packages))
}

fn apt_install(packages: &[&str]) -> Command {
    let mut command = apt_get(&["install", "-qy", "--no-install-recommends"]);
    command.args(packages);
    command
}

fn apt_get(words: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn pip(folder: &PathBuf, requirement: &str) -> Result<()> {
    println!("installing {requirement} into {}", folder.display());
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(folder);
    run(venv).context("python3 with venv is needed: apt-get install python3-venv")?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", requirement]);
    run(pip)
}
