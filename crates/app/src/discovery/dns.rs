//! Source `dns`: the A and AAAA records of a name, or the SRV records of a service, asked for again when they have lived
//! for their time.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, bail};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, Record, RecordType};
use sluicegate_proxy::plan::ReplicaPlan;

use super::backoff::Backoff;
use super::board::Feed;
use crate::config::DnsPlan;

/// However short the records live.
const SHORTEST: Duration = Duration::from_secs(1);
/// However long they do.
const LONGEST: Duration = Duration::from_secs(300);

pub(super) async fn follow(asked: &DnsPlan, server: Option<SocketAddr>, feed: &Feed) -> Infallible {
    let mut backoff = Backoff::default();
    let mut known = Vec::new();
    loop {
        let pause = match look_up(asked, server, &known).await {
            Ok(found) => {
                feed.found(&found.replicas());
                backoff.reset();
                known = found.addresses;
                found.lives.clamp(SHORTEST, LONGEST)
            }
            Err(error) => {
                feed.failed(&format!("{error:#}"));
                backoff.next()
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// What the records say.
#[derive(Debug)]
struct Found {
    addresses: Vec<SocketAddr>,
    /// The shortest time to live.
    lives: Duration,
}

impl Found {
    /// In a fixed order: name servers turn theirs with each answer.
    fn replicas(&self) -> Vec<ReplicaPlan> {
        let mut addresses = self.addresses.clone();
        addresses.sort_unstable();
        addresses.dedup();
        addresses.into_iter().map(super::at).collect()
    }

    fn add(&mut self, record: &Record, port: u16) {
        match &record.data {
            RData::A(ip) => self.addresses.push(SocketAddr::new(IpAddr::V4(ip.0), port)),
            RData::AAAA(ip) => self.addresses.push(SocketAddr::new(IpAddr::V6(ip.0), port)),
            // The other name may soon be a different one.
            RData::CNAME(_) => {}
            _ => return,
        }
        self.note(record);
    }

    fn note(&mut self, record: &Record) {
        self.lives = self.lives.min(Duration::from_secs(u64::from(record.ttl)));
    }
}

/// A resolver without a memory, made anew: the system's name servers may have changed.
fn resolver(server: Option<SocketAddr>) -> anyhow::Result<TokioResolver> {
    let mut builder = match server {
        None => TokioResolver::builder_tokio().context("the system's name servers are not known")?,
        Some(server) => {
            let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
                connection.port = server.port();
                connection
            });
            let server = NameServerConfig::new(server.ip(), true, connections.to_vec());
            let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        }
    };
    builder.options_mut().cache_size = 0;
    builder.build().context("no resolver")
}

/// `known`: what was found last.
async fn look_up(asked: &DnsPlan, server: Option<SocketAddr>, known: &[SocketAddr]) -> anyhow::Result<Found> {
    let resolver = resolver(server)?;
    let mut found = Found { addresses: Vec::new(), lives: LONGEST };
    match asked {
        DnsPlan::Addresses { name, port } => addresses(&resolver, (name, *port), known, &mut found).await?,
        DnsPlan::Services(name) => {
            let answer = resolver.srv_lookup(&**name).await.with_context(|| format!("no SRV of {name}"))?;
            let services = || {
                answer.answers().iter().filter_map(|record| match &record.data {
                    RData::SRV(srv) => Some((record, srv)),
                    _ => None,
                })
            };
            // Others are for when these are gone (RFC 2782); our own health decides what is.
            let first = services().map(|(_, srv)| srv.priority).min();
            for (record, srv) in services().filter(|(_, srv)| Some(srv.priority) == first) {
                found.note(record);
                addresses(&resolver, (&srv.target.to_utf8(), srv.port), known, &mut found).await?;
            }
        }
    }
    Ok(found)
}

/// Of both families, each asked for by itself. That one of them could not be asked for does not mean that it has no
/// address, and its replicas must not go for it. Where it never had any, the other one is enough: some name servers do
/// not answer questions for AAAA as they should (RFC 4074).
async fn addresses(
    resolver: &TokioResolver,
    (name, port): (&str, u16),
    known: &[SocketAddr],
    found: &mut Found,
) -> anyhow::Result<()> {
    let before = found.addresses.len();
    let (v4, v6) =
        tokio::join!(resolver.lookup(name, RecordType::A), resolver.lookup(name, RecordType::AAAA));
    let mut unanswered = None;
    for (answer, kind, needed) in [
        (v4, "A", known.iter().any(SocketAddr::is_ipv4)),
        (v6, "AAAA", known.iter().any(SocketAddr::is_ipv6)),
    ] {
        let answer = match answer {
            Err(error) if error.is_no_records_found() => continue,
            answer => answer.with_context(|| format!("no {kind} of {name}")),
        };
        match answer {
            Ok(answer) => answer.answers().iter().for_each(|record| found.add(record, port)),
            Err(error) if needed => return Err(error),
            Err(error) => unanswered = Some(error),
        }
    }
    match unanswered {
        _ if found.addresses.len() > before => Ok(()),
        Some(error) => Err(error),
        None => bail!("{name} has no address"),
    }
}
