//! Outputs that are full, closed or never read.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use sluicegate_lab::sim::{Sim, SimConfig};
use sluicegate_testkit::patiently;
use tokio::net::TcpStream;

use crate::http::{CHAT, chat, get, post};
use crate::process::{BINARY, Process};

/// An output that takes nothing, as long as the second one lives unread.
pub(crate) fn stuck_output() -> (Stdio, UnixStream) {
    let (mut output, reader) = UnixStream::pair().unwrap();
    output.set_nonblocking(true).unwrap();
    for size in [4096, 1] {
        while match output.write(&vec![b'x'; size]) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        } {}
    }
    output.set_nonblocking(false).unwrap();
    (OwnedFd::from(output).into(), reader)
}

/// Serves one request, sends the signals, and gives what standard error said in the end.
async fn end_with_stuck_output(on_full: &str, signals: usize) -> String {
    let sim = Sim::start(SimConfig { replicas: 1, ..SimConfig::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sluicegate.toml");
    let configuration = format!(
        "[listen]\naddress = \"127.0.0.1:0\"\nthreads = 1\n[admin]\naddress = \"127.0.0.1:0\"\n\
         [usage]\noutput = [\"stdout\"]\non_full = \"{on_full}\"\n\
         [[pools]]\nname = \"p\"\nreplicas = [\"http://{}\"]\n",
        sim.addrs()[0]
    );
    std::fs::write(&file, configuration).unwrap();
    let (stdout, _reader) = stuck_output();
    let words = ["serve", "--config", file.to_str().unwrap()];
    let mut process = Process::spawn(Command::new(BINARY).args(words).stdout(stdout));
    let (address, admin) = process.addresses();
    patiently(async { while get(admin, "/readyz").await.status != 200 {} }).await;
    assert_eq!(post(address, CHAT, &chat(2, false)).await.status, 200);
    process.terminate();
    process.line_with("draining");
    for _ in 1..signals {
        process.terminate();
    }
    let ended = process.ended().await;
    sim.shutdown().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    ended.stderr
}

#[tokio::test]
async fn a_reader_that_is_stuck_does_not_keep_it_from_ending_and_the_loss_is_told() {
    for (on_full, signals) in [("drop", 1), ("wait", 1), ("drop", 3)] {
        let stderr = end_with_stuck_output(on_full, signals).await;
        assert!(stderr.contains("usage lines were lost at the end"), "{on_full} {signals}: {stderr}");
        assert!(stderr.contains("lost=1 lost_so_far=1"), "{on_full} {signals}: {stderr}");
    }
}

/// As a shell would start it, with `redirection` behind it.
fn with_stderr(redirection: &str, words: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec \"$0\" \"$@\" {redirection}"), BINARY]).args(words);
    command.env("RUST_LOG", "trace").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

const NOBODY_READS: [&str; 2] = ["2>/dev/full", "2>&-"];

#[test]
fn commands_end_as_ever_where_nobody_reads_their_words() {
    let folder = tempfile::tempdir().unwrap();
    let lines = folder.path().join("usage.jsonl");
    let mut file = OpenOptions::new().create(true).append(true).open(&lines).unwrap();
    let good = include_str!("../usage/lines.jsonl").lines().next().unwrap();
    writeln!(file, "no usage line\n{good}").unwrap();
    let lines = lines.to_str().unwrap();
    for redirection in NOBODY_READS {
        for (code, words) in [
            (0, &["--help"][..]),
            (0, &["key", "new"]),
            (0, &["usage", lines]),
            (0, &["usage", lines, "--key", "of-nobody"]),
            (1, &["usage", lines, "--strict"]),
            (1, &["explain", "--admin", "127.0.0.1:1", "--model", "m"]),
            (2, &["key", "hash"]),
            (2, &["check", "/no/such/file.toml"]),
            (2, &["serve"]),
            (2, &["--no-such-flag"]),
        ] {
            let status = with_stderr(redirection, words).status().unwrap();
            assert_eq!(status.code(), Some(code), "{words:?} {redirection}");
        }
    }
}

fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_gateway_serves_and_ends_where_nobody_reads_its_log() {
    for redirection in NOBODY_READS {
        let sim = Sim::start(SimConfig { replicas: 1, ..SimConfig::default() }).unwrap();
        let (listen, admin) = (free_address(), free_address());
        let replica = format!("http://{}", sim.addrs()[0]);
        let (listen_text, admin_text) = (listen.to_string(), admin.to_string());
        let words = [
            "serve",
            "--replica",
            &replica,
            "--listen",
            &listen_text,
            "--admin",
            &admin_text,
            "--threads",
            "1",
        ];
        let process = Process::spawn(&mut with_stderr(redirection, &words));
        patiently(async { while TcpStream::connect(admin).await.is_err() {} }).await;
        patiently(async { while get(admin, "/readyz").await.status != 200 {} }).await;
        assert_eq!(post(listen, CHAT, &chat(2, false)).await.status, 200, "{redirection}");
        process.terminate();
        assert_eq!(process.ended().await.status.code(), Some(0), "{redirection}");
        sim.shutdown().await;
    }
}

#[tokio::test]
async fn replicas_are_announced_where_nobody_reads() {
    for redirection in NOBODY_READS {
        let address = free_address();
        let process =
            Process::spawn(&mut with_stderr(redirection, &["sim", "--listen", &address.to_string()]));
        patiently(async { while TcpStream::connect(address).await.is_err() {} }).await;
        process.terminate();
        assert_eq!(process.ended().await.status.code(), Some(0), "{redirection}");
    }
}

#[tokio::test]
async fn fewer_open_files_lower_the_number_of_connections_and_say_so() {
    let script = "ulimit -n 300; exec \"$0\" \"$@\"";
    let words =
        ["serve", "--replica", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut command = Command::new("sh");
    command.args(["-c", script, BINARY]).args(words).stdout(Stdio::piped());
    let mut process = Process::spawn(&mut command);
    let warning = process.line_with("listen.max_connections");
    for part in ["is 86 instead of 20000", "limit of 300 open files", "LimitNOFILE=40128", "ulimit -n 40128"]
    {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    process.addresses();
    process.terminate();
    assert_eq!(process.ended().await.status.code(), Some(0));
}
