//! Starting a candidate or a replica on its core, and ending it with all its children.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use super::peers::{Peer, Source};
use super::{install, measure::Bench};

/// Seconds after which a process is killed that was forgotten; more than any measurement takes, a soak adds its own.
const LIFETIME: f64 = 400.0;

/// A process that ends with this value.
pub(super) struct Running {
    child: Child,
    /// Its program, for messages.
    shown: String,
}

impl Running {
    /// Starts a program on cores (`0`, or `0,1`), its output in a file. `longer` seconds are added to its lifetime.
    pub(super) fn start(
        bench: &Bench,
        cores: &str,
        words: &[String],
        output: &Path,
        longer: f64,
    ) -> Result<Self> {
        let mut command = pinned(bench, cores, LIFETIME + longer);
        let log = File::create(output).with_context(|| format!("cannot write {}", output.display()))?;
        command.args(words).current_dir(&bench.run).stdin(Stdio::null());
        command.stdout(log.try_clone()?).stderr(log);
        let program = words.first().map(String::as_str).unwrap_or_default();
        let shown = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start `{shown}`"))?;
        Ok(Self { child, shown })
    }

    /// The process at the top: `timeout`, whose descendants are the candidate.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Errors: it has ended by itself.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("`{}` ended ({status})", self.shown),
            None => Ok(()),
        }
    }
}

impl Drop for Running {
    /// `timeout` passes the signal on, and kills what has not ended five seconds later.
    fn drop(&mut self) {
        let mut end = Command::new("kill");
        end.args(["-TERM", &self.pid().to_string()]).stderr(Stdio::null());
        let sent = end.status();
        if sent.is_ok() {
            let _ended = self.child.wait();
        }
    }
}

/// A command on its cores that ends with this process, and in any case after its lifetime.
pub(super) fn pinned(bench: &Bench, cores: &str, lifetime: f64) -> Command {
    let mut words: Vec<String> =
        ["setpriv", "--pdeathsig", "TERM", "timeout", "--kill-after=5"].map(String::from).into();
    words.push(lifetime.to_string());
    let files = bench.machine.open_files;
    words.extend(["prlimit".to_owned(), format!("--nofile={files}:{files}")]);
    if bench.machine.realtime {
        words.extend(["chrt", "--rr", "10"].map(String::from));
    }
    words.extend(["taskset", "--cpu-list", cores].map(String::from));
    let mut command = Command::new(&words[0]);
    // Messages end up in the table's notes.
    command.args(&words[1..]).env("RUST_BACKTRACE", "0");
    command
}

/// The words that start a peer, its configuration written into the run folder.
pub(super) fn words(bench: &Bench, peer: &Peer, text: &str, port: u16, replica: u16) -> Result<Vec<String>> {
    let config = bench.run.join(format!("{}.config{}", peer.name, extension(peer)));
    let places = [
        ("@CONFIG@", config.display().to_string()),
        ("@PORT@", port.to_string()),
        ("@SPARE@", free_port()?.to_string()),
        ("@REPLICA_PORT@", replica.to_string()),
        ("@REPLICA@", format!("127.0.0.1:{replica}")),
        ("@HOST@", "127.0.0.1".to_owned()),
        ("@FILES@", bench.machine.open_files.to_string()),
        ("@STREAMS@", bench.machine.most_streams().to_string()),
        ("@RUN@", bench.run.display().to_string()),
        ("@PEERS@", bench.root.join("bench/peers").display().to_string()),
        // The gateway's own files can be pasted as they are: their addresses take the places of these.
        ("127.0.0.1:8000", format!("127.0.0.1:{replica}")),
        ("/dev/shm/sluicegate-usage.jsonl", bench.run.join("usage.jsonl").display().to_string()),
    ];
    if peer.config.is_some() {
        fs::write(&config, filled(text, &places))?;
    }
    let mut words = vec![program(bench, peer)?.display().to_string()];
    words.extend(peer.words.iter().map(|word| filled(word, &places)));
    Ok(words)
}

/// A candidate's program. Errors: it is not installed; says how to mend it.
pub(super) fn program(bench: &Bench, peer: &Peer) -> Result<PathBuf> {
    match &peer.source {
        Source::Built => Ok(bench.gateway.clone()),
        Source::Apt { packages, program } => install::program_path(program)
            .with_context(|| format!("not installed: --install, or apt-get install {}", packages.join(" "))),
        Source::Pip { package, version, program } => {
            let file = install::folder(peer)?.join("bin").join(program);
            if !file.exists() {
                bail!("not installed: --install ({package} {version}, by pip)");
            }
            Ok(file)
        }
    }
}

/// A port that nobody listens on now.
pub(super) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Some programs look at it.
fn extension(peer: &Peer) -> String {
    let name = peer.config.unwrap_or_default();
    name.rsplit_once('.').map_or_else(String::new, |(_, extension)| format!(".{extension}"))
}

fn filled(text: &str, places: &[(&str, String)]) -> String {
    places.iter().fold(text.to_owned(), |text, (place, value)| text.replace(place, value))
}

#[cfg(test)]
mod tests {
    use super::super::peers::PEERS;
    use super::filled;

    #[test]
    fn places_are_filled_in_and_the_longer_name_wins() {
        let places = [("@REPLICA_PORT@", "9".to_owned()), ("@REPLICA@", "h:9".to_owned())];
        assert_eq!(filled("a @REPLICA@ b @REPLICA_PORT@", &places), "a h:9 b 9");
    }

    #[test]
    fn every_configuration_of_a_peer_is_there() {
        let bench = crate::root().join("bench");
        for name in PEERS.iter().filter_map(|peer| peer.config) {
            assert!(bench.join(name).is_file(), "{name}");
        }
    }
}
