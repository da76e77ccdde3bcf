//! Replicas that are records of a name server: one of a few lines here, which answers as RFC 1035 says.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use sluicegate_testkit::discovery::{config, has, source};
use sluicegate_testkit::{Bench, Upstream};

const A: u16 = 1;
const AAAA: u16 = 28;
const SRV: u16 = 33;

/// A record: name, type, data.
type Record = (String, u16, Vec<u8>);

/// Answers from these records, which live for a second, until the test ends.
struct NameServer {
    address: SocketAddr,
    records: Arc<Mutex<Vec<Record>>>,
    /// The type that it cannot answer for.
    lost: Arc<AtomicU16>,
}

impl NameServer {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("bound");
        let records: Arc<Mutex<Vec<Record>>> = Arc::default();
        let known = Arc::downgrade(&records);
        let lost: Arc<AtomicU16> = Arc::default();
        let fails = Arc::clone(&lost);
        std::thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((len, from)) = socket.recv_from(&mut packet) {
                let Some(records) = known.upgrade() else { return };
                let lost = fails.load(Ordering::SeqCst);
                let reply = reply(&packet[..len], &records.lock().expect("not poisoned"), lost);
                socket.send_to(&reply, from).expect("sent");
            }
        });
        Self { address, records, lost }
    }

    fn set(&self, records: Vec<Record>) {
        *self.records.lock().expect("not poisoned") = records;
    }
}

/// The question comes back, with every record of its name and type, or as a name that does not exist; one for the type
/// that is lost, as a failure.
fn reply(query: &[u8], records: &[Record], lost: u16) -> Vec<u8> {
    let (mut at, mut labels) = (12, Vec::new());
    while query[at] > 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_ascii_lowercase());
        at = end;
    }
    let (name, question) = (labels.join("."), &query[12..at + 5]);
    let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
    let known = records.iter().any(|(of, ..)| *of == name);
    let found: Vec<&Record> = records.iter().filter(|(of, its, _)| *of == name && *its == kind).collect();
    let mut out = query[..2].to_vec();
    let code = match (kind == lost, known) {
        (true, _) => 0x82,
        (false, true) => 0x80,
        (false, false) => 0x83,
    };
    out.extend([0x85, code, 0, 1, 0, found.len() as u8, 0, 0, 0, 0]);
    out.extend(question);
    for (_, kind, data) in found {
        out.extend([0xc0, 12]);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1, 0, 0, 0, 1]);
        out.extend((data.len() as u16).to_be_bytes());
        out.extend(data);
    }
    out
}

fn srv(priority: u16, up: &Upstream, target: &str) -> Record {
    let port = up.address().port();
    let mut data: Vec<u8> = [priority, 1, port].iter().flat_map(|n| n.to_be_bytes()).collect();
    for label in target.split('.') {
        data.push(label.len() as u8);
        data.extend(label.bytes());
    }
    data.push(0);
    ("_vllm._tcp.example".into(), SRV, data)
}

fn a(name: &str, last: u8) -> Record {
    (name.into(), A, vec![127, 0, 0, last])
}

#[tokio::test]
async fn the_addresses_of_a_name_are_the_replicas_and_are_asked_for_again() {
    let server = NameServer::start();
    server.set(vec![a("vllm.example", 1), a("vllm.example", 2)]);
    let bench = Bench::start(&config(&format!(
        "{{ source = \"dns\", name = \"vllm.example.\", port = 9, server = \"{}\" }}",
        server.address
    )));
    has(&bench, &["http://127.0.0.1:9", "http://127.0.0.2:9"]).await;
    server.set(vec![a("vllm.example", 3), a("vllm.example", 1)]);
    has(&bench, &["http://127.0.0.1:9", "http://127.0.0.3:9"]).await;
    server.set(Vec::new());
    source(&bench, true).await;
    has(&bench, &["http://127.0.0.1:9", "http://127.0.0.3:9"]).await;
    server.set(vec![a("vllm.example", 4)]);
    has(&bench, &["http://127.0.0.4:9"]).await;
    source(&bench, false).await;
}

#[tokio::test]
async fn a_family_that_could_not_be_asked_for_takes_no_replica_away() {
    let server = NameServer::start();
    let v6 = |last| ("vllm.example".into(), AAAA, [[0; 15].as_slice(), &[last]].concat());
    server.set(vec![a("vllm.example", 1), v6(1)]);
    let bench = Bench::start(&config(&format!(
        "{{ source = \"dns\", name = \"vllm.example.\", port = 9, server = \"{}\" }}",
        server.address
    )));
    let both = ["http://127.0.0.1:9", "http://[::1]:9"];
    has(&bench, &both).await;
    for lost in [AAAA, A] {
        server.lost.store(lost, Ordering::SeqCst);
        source(&bench, true).await;
        has(&bench, &both).await;
        server.lost.store(0, Ordering::SeqCst);
        source(&bench, false).await;
    }
}

#[tokio::test]
async fn a_name_server_that_never_answers_for_a_family_is_asked_for_the_other() {
    let server = NameServer::start();
    server.lost.store(AAAA, Ordering::SeqCst);
    server.set(vec![a("vllm.example", 1)]);
    let bench = Bench::start(&config(&format!(
        "{{ source = \"dns\", name = \"vllm.example.\", port = 9, server = \"{}\" }}",
        server.address
    )));
    has(&bench, &["http://127.0.0.1:9"]).await;
    server.set(vec![a("vllm.example", 2)]);
    has(&bench, &["http://127.0.0.2:9"]).await;
    source(&bench, false).await;
    server.set(Vec::new());
    source(&bench, true).await;
    has(&bench, &["http://127.0.0.2:9"]).await;
}

#[tokio::test]
async fn srv_records_tell_hosts_and_ports_and_only_the_first_priority_counts() {
    let [one, two, spare] = ["m1"; 3].map(Upstream::start);
    let server = NameServer::start();
    let hosts = [a("a.example", 1), a("b.example", 1)];
    let mut records = vec![srv(10, &one, "a.example"), srv(20, &spare, "b.example")];
    records.extend(hosts.clone());
    server.set(records);
    let bench = Bench::start(&config(&format!(
        "{{ source = \"dns\", srv = \"_vllm._tcp.example.\", server = \"{}\" }}",
        server.address
    )));
    has(&bench, &[&one.url()]).await;
    bench.wait_live(1).await;
    let mut records = vec![srv(10, &one, "a.example"), srv(10, &two, "b.example")];
    records.extend(hosts);
    server.set(records);
    has(&bench, &[&one.url(), &two.url()]).await;
}
