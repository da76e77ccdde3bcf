//! The built binary as a child process.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use sluicegate_testkit::patiently;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_sluicegate");

/// A running `sluicegate`; it is killed when the test ends early.
pub(crate) struct Process {
    child: Child,
    stderr: BufReader<ChildStderr>,
    /// What was not read of standard output.
    stdout: Option<BufReader<ChildStdout>>,
}

/// What is left when it has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Process {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::spawn(Command::new(BINARY).args(words).stdout(Stdio::piped()))
    }

    /// The command as given, but for environment, standard input and standard error.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::spawn_with(command, "info")
    }

    /// The same with another level of its log.
    pub(crate) fn spawn_with(command: &mut Command, log: &str) -> Self {
        let mut child = command
            .env("RUST_LOG", log)
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let stdout = child.stdout.take().map(BufReader::new);
        Self { child, stderr, stdout }
    }

    /// The first line on standard error that holds `text`.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "it ended without {text:?}");
        }
        line
    }

    /// The first line on standard output that begins with `text`.
    pub(crate) fn told(&mut self, text: &str) -> String {
        let stdout = self.stdout.as_mut().unwrap();
        let mut line = String::new();
        while !line.starts_with(text) {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "it ended without {text:?}");
        }
        line
    }

    /// The addresses for clients and of the admin side, as printed.
    pub(crate) fn addresses(&mut self) -> (SocketAddr, SocketAddr) {
        let line = self.line_with(" listens on ");
        let mut addresses = line.split("http://").skip(1).filter_map(|text| text.split([',', '\n']).next());
        let mut next = || addresses.next().unwrap().parse().unwrap();
        (next(), next())
    }

    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Reads a line of standard output, then no more, and waits for the end.
    pub(crate) async fn ended_after_a_line(mut self) -> Ended {
        let mut line = String::new();
        self.stdout.take().unwrap().read_line(&mut line).unwrap();
        self.ended().await
    }

    pub(crate) async fn ended(mut self) -> Ended {
        let waiting = tokio::task::spawn_blocking(move || {
            let mut stderr = String::new();
            self.stderr.read_to_string(&mut stderr).unwrap();
            let mut stdout = String::new();
            if let Some(mut piped) = self.stdout.take() {
                piped.read_to_string(&mut stdout).unwrap();
            }
            Ended { status: self.child.wait().unwrap(), stdout, stderr }
        });
        patiently(waiting).await.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already where the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
