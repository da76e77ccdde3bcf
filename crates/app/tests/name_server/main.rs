//! Replicas that are records of a real name server: NSD, which answers on a loopback address of its own. `cargo test`
//! leaves these tests out, since they need it; `cargo xtask ci` runs them, or says that it is not installed.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use sluicegate_testkit::discovery::{config, has, names, source};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Upstream, until};
use tempfile::TempDir;

/// Below those that the system gives out, so that nobody else comes upon it.
const PORT: u16 = 5399;

/// A name server with the zone `example`, and a zone `broken` that it does not have the records of.
struct Nsd {
    folder: TempDir,
    address: SocketAddr,
    running: Option<Child>,
}

impl Nsd {
    fn start(records: &str) -> Self {
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let [high, low] = (std::process::id() as u16).to_be_bytes();
        let ip = Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = TempDir::new().expect("a folder");
        let server = Self { folder, address: (ip, PORT).into(), running: None };
        std::fs::write(server.settings(), server.text()).expect("a file can be written");
        server.write(records);
        server.begin()
    }

    fn settings(&self) -> PathBuf {
        self.folder.path().join("nsd.conf")
    }

    fn text(&self) -> String {
        let folder = self.folder.path().display();
        let Self { address, .. } = self;
        let (ip, port) = (address.ip(), address.port());
        let mut text = format!(
            "server:\n ip-address: {ip}@{port}\n username: \"\"\n chroot: \"\"\n database: \"\"\n server-count: 1\n \
             rrl-ratelimit: 0\n zonesdir: \"{folder}\"\n xfrdir: \"{folder}\"\n"
        );
        for (key, file) in [("zonelistfile", "list"), ("xfrdfile", "state"), ("pidfile", "pid")] {
            writeln!(text, " {key}: \"{folder}/{file}\"").expect("a string takes all");
        }
        let control =
            format!("remote-control:\n control-enable: yes\n control-interface: \"{folder}/control\"\n");
        let zones = "zone:\n name: example\n zonefile: example\nzone:\n name: broken\n zonefile: missing\n";
        text + &control + zones
    }

    fn write(&self, records: &str) {
        let head = "$ORIGIN example.\n$TTL 1\n@ SOA ns host 1 1 1 1 1\n@ NS ns\nns A 127.0.0.1\n";
        std::fs::write(self.folder.path().join("example"), format!("{head}{records}\n"))
            .expect("a file can be written");
    }

    fn begin(mut self) -> Self {
        self.restart();
        self
    }

    fn restart(&mut self) {
        let mut command = Command::new("nsd");
        command.arg("-d").arg("-c").arg(self.settings()).stderr(Stdio::null());
        self.running = Some(command.spawn().expect("nsd is not installed: apt-get install nsd"));
        // It listens once it answers here.
        while !control(&self.settings(), "status") {}
    }

    /// From now on these are the records.
    fn set(&self, records: &str) {
        self.write(records);
        assert!(control(&self.settings(), "reload"), "the zone is read again");
    }

    fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            control(&self.settings(), "stop");
            running.wait().expect("it ends");
        }
    }

    fn source(&self, asked: &str) -> String {
        config(&format!("{{ source = \"dns\", {asked}, server = \"{}\" }}", self.address))
    }
}

impl Drop for Nsd {
    fn drop(&mut self) {
        self.stop();
    }
}

fn control(settings: &Path, word: &str) -> bool {
    let mut command = Command::new("nsd-control");
    command.arg("-c").arg(settings).arg(word).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("nsd-control comes with nsd").success()
}

#[tokio::test]
async fn addresses_of_both_families_are_replicas_and_follow_the_records() {
    let server = Nsd::start("vllm A 127.0.0.1\nvllm AAAA ::1");
    let bench = Bench::start(&server.source("name = \"vllm.example.\", port = 9"));
    has(&bench, &["http://127.0.0.1:9", "http://[::1]:9"]).await;
    for (records, expected) in [
        ("vllm AAAA ::1", vec!["http://[::1]:9"]),
        ("vllm A 127.0.0.2\nvllm A 127.0.0.3", vec!["http://127.0.0.2:9", "http://127.0.0.3:9"]),
        // Another name for it, which moves while what it leads to would live for an hour.
        ("vllm CNAME a\na 3600 A 127.0.0.4\nb 3600 A 127.0.0.5", vec!["http://127.0.0.4:9"]),
        ("vllm CNAME b\na 3600 A 127.0.0.4\nb 3600 A 127.0.0.5", vec!["http://127.0.0.5:9"]),
    ] {
        server.set(records);
        has(&bench, &expected).await;
        source(&bench, false).await;
    }
}

#[tokio::test]
async fn an_answer_too_long_for_a_datagram_is_read_whole() {
    let mut records = String::new();
    let mut expected = Vec::new();
    for n in 1..=400 {
        let ip = Ipv4Addr::new(127, 0, 1 + (n / 200) as u8, 1 + (n % 200) as u8);
        writeln!(records, "many A {ip}").expect("a string takes all");
        expected.push(format!("http://{ip}:9"));
    }
    let server = Nsd::start(&records);
    let bench = Bench::start(&server.source("name = \"many.example.\", port = 9"));
    has(&bench, &expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
}

#[tokio::test]
async fn services_tell_hosts_ports_and_priorities() {
    let [one, two, spare] = ["m1"; 3].map(Upstream::start);
    let srv =
        |priority: u16, up: &Upstream| format!("_vllm._tcp SRV {priority} 1 {} host\n", up.address().port());
    let host = "host A 127.0.0.1\n";
    let server = Nsd::start(&[host, &srv(10, &one), &srv(20, &spare)].concat());
    let bench = Bench::start(&server.source("srv = \"_vllm._tcp.example.\""));
    has(&bench, &[&one.url()]).await;
    bench.wait_live(1).await;
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    server.set(&[host, &srv(10, &one), &srv(10, &two), &srv(20, &spare)].concat());
    has(&bench, &[&one.url(), &two.url()]).await;
    server.set(&[host, &srv(20, &spare)].concat());
    has(&bench, &[&spare.url()]).await;
    // A service without a place (RFC 2782), and one whose host nobody knows.
    for lost in ["_vllm._tcp SRV 0 0 0 .", "_vllm._tcp SRV 0 0 9 nowhere"] {
        server.set(lost);
        source(&bench, true).await;
        assert_eq!(names(&bench), [spare.url()], "{lost}");
        server.set(&[host, &srv(20, &spare)].concat());
        source(&bench, false).await;
    }
    bench.assert_idle(1).await;
}

#[tokio::test]
async fn whatever_goes_wrong_at_the_name_server_the_last_known_replicas_stay() {
    let up = Upstream::start("m1");
    let asked = format!("name = \"vllm.example.\", port = {}", up.address().port());
    let known = "vllm A 127.0.0.1";
    let mut server = Nsd::start(known);
    let bench = Bench::start(&server.source(&asked));
    has(&bench, &[&up.url()]).await;
    bench.wait_live(1).await;
    let mut asked = 0;
    // No such name; a name without an address; one that leads into a zone that cannot be answered for; to nowhere.
    for records in ["", "vllm TXT nothing", "vllm CNAME a.broken.", "vllm CNAME nowhere"] {
        server.set(records);
        let said = source(&bench, true).await;
        assert!(said["failing"].as_str().is_some_and(|why| why.contains("vllm.example.")), "{said}");
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200, "{records}");
        assert_eq!(names(&bench), [up.url()], "{records}");
        server.set(known);
        source(&bench, false).await;
        asked += 1;
    }
    server.stop();
    source(&bench, true).await;
    assert_eq!(bench.metric("sluicegate_discovery_up{pool=\"pool\",source=\"dns\"}").await, 0.0);
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200, "without a name server");
    assert_eq!(names(&bench), [up.url()]);
    server.restart();
    source(&bench, false).await;
    bench.assert_idle(asked + 1).await;
}

#[tokio::test]
async fn a_zone_that_it_cannot_answer_for_is_a_failure_from_the_start() {
    let server = Nsd::start("vllm A 127.0.0.1");
    for (name, why) in [("vllm.broken.", "Server Failure"), ("vllm.elsewhere.", "Query Refused")] {
        let bench = Bench::start(&server.source(&format!("name = \"{name}\", port = 9")));
        let said = source(&bench, true).await;
        assert!(said["failing"].as_str().is_some_and(|text| text.contains(why)), "{said}");
        until(|| names(&bench).is_empty()).await;
    }
}
