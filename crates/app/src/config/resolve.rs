//! From what the file and the flags say to the validated plan. Judges only what could be read, and everything of it.

mod affinity;
mod decision;
mod hold;
mod keys;
mod pools;
mod routes;
mod targets;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sluicegate_proxy::Plan;
use sluicegate_proxy::plan::{KeysPlan, ListenPlan};

use super::choices::{HalfClose, Output, Outputs};
use super::diagnostics::{Origin, Problems};
use super::raw::{Admin, File, Listen, Usage};
use super::read::Set;
use super::secret::Secret;
use super::{AdminPlan, Loaded, Overrides, UsagePlan};

/// More data-plane threads than this are a slip of the finger.
const MOST_THREADS: u32 = 1024;

/// The plan, or None where `problems` has been told why not. `host` is the host's name.
pub(super) fn resolve(
    mut file: File,
    overrides: &Overrides,
    host: &str,
    problems: &mut Problems<'_>,
) -> Option<Loaded> {
    override_addresses(&mut file, overrides);
    override_usage(&mut file.usage.value, overrides, problems);
    pools::override_replicas(&mut file.pools.value, &overrides.replicas, problems);
    let mut warnings = Vec::new();
    let listen = listen(&file, problems, &mut warnings);
    let admin = admin(&file.admin.value, problems);
    distinct_addresses(&file.listen.value.address, &file.admin.value.address, problems);
    let usage = usage(&file.usage.value, problems);
    let mut pools = pools::pools(&file.pools.value, problems, &mut warnings);
    let discover = pools::sources(&file.pools.value, problems);
    let mut decisions = Vec::new();
    let routes = routes::routes(&file, &mut decisions, problems, &mut warnings);
    let keys = keys::keys(&file, problems);
    if !problems.is_empty() {
        return None;
    }
    let gateway_id: Arc<str> =
        file.gateway_id.value.as_ref().map_or_else(|| host.into(), |name| name.0.clone());
    let routes = routes?;
    pools::learn_for(&routes, &mut pools);
    affinity::warn_of_idle_keys(&file.pools.value, &routes, problems, &mut warnings);
    pools::warn_of_lonely_replicas(&file.pools.value, &routes, problems, &mut warnings);
    if let KeysPlan::Named(plans) = &keys {
        keys::warn(&file, plans, (&pools, &routes), problems, &mut warnings);
    }
    let plan = Plan { gateway_id, listen, pools, routes, keys };
    let changes = super::summary::changes(&file);
    Some(Loaded { plan, admin, usage: usage?, discover, decisions, warnings, changes })
}

fn override_addresses(file: &mut File, overrides: &Overrides) {
    if let Some(address) = overrides.listen {
        file.listen.value.address = Set::flag(address, &format!("--listen {address}"));
    }
    if let Some(address) = overrides.admin {
        file.admin.value.address = Set::flag(address, &format!("--admin {address}"));
    }
    if let Some(threads) = overrides.threads {
        let value = u32::try_from(threads).unwrap_or(u32::MAX);
        file.listen.value.threads = Set::flag(value, &format!("--threads {threads}"));
    }
    if overrides.open {
        file.listen.value.open = Set::flag(true, "--open");
    }
}

fn override_usage(usage: &mut Usage, overrides: &Overrides, problems: &mut Problems<'_>) {
    let Some(text) = &overrides.usage else { return };
    let flag = format!("--usage {text}");
    match Output::of_flag(text) {
        Ok(output) => usage.output = Set::flag(Outputs(vec![Set::flag(output, &flag)]), &flag),
        Err(refusal) => problems.refused(&Origin::Flag(flag), refusal),
    }
}

fn listen(file: &File, problems: &mut Problems<'_>, warnings: &mut Vec<String>) -> ListenPlan {
    let listen = &file.listen.value;
    who_may_come(file, problems, warnings);
    let threads = &listen.threads;
    if threads.value > MOST_THREADS {
        problems
            .add(&threads.origin, format!("threads: {} are too many", threads.value))
            .hint(format!("0 (one per core) up to {MOST_THREADS}"));
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    ListenPlan {
        address: listen.address.value,
        threads: if threads.value == 0 { cores() } else { threads.value as usize },
        max_connections: listen.max_connections.value.get() as usize,
        max_body: bytes(listen.max_body.value.0),
        head_timeout: listen.head_timeout.value.0,
        body_idle_timeout: listen.body_idle_timeout.value.0,
        write_idle_timeout: listen.write_idle_timeout.value.0,
        drain_timeout: listen.drain_timeout.value.0,
        serve_half_closed: listen.half_close.value == HalfClose::Serve,
    }
}

/// A listener that others reach asks for keys or says that it is open, and never both.
fn who_may_come(file: &File, problems: &mut Problems<'_>, warnings: &mut Vec<String>) {
    let Listen { address, open, .. } = &file.listen.value;
    if file.keys.given() {
        if open.value {
            let at = file.keys.value.first().map_or(&file.keys.origin, |key| &key.origin);
            let what = "open = true lets everybody in, and [[keys]] does not";
            problems
                .conflict(&open.origin, what, at, "the first key")
                .hint("leave open out; without it only who has a key may use the gateway");
        }
    } else if address.sound && open.sound && !loopback(address.value.ip()) {
        if open.value {
            let what = format!("{}: anybody who reaches it may use this gateway", address.value);
            warnings.push(problems.line(&address.origin, &what));
        } else {
            let what = format!("{} is not a loopback address, and no client key is asked for", address.value);
            let hint = "add [[keys]]; or start with --open, or write open = true in [listen], if everybody who \
                        reaches it may use the gateway; or use 127.0.0.1";
            problems.add(&address.origin, what).hint(hint);
        }
    }
}

fn admin(admin: &Admin, problems: &mut Problems<'_>) -> AdminPlan {
    let address = &admin.address;
    if address.sound && !loopback(address.value.ip()) && admin.token.sound && admin.token.value.is_none() {
        let what = format!("{} is not a loopback address, and the admin side has no token", address.value);
        problems.add(&address.origin, what).hint("add token = \"env:NAME\" to [admin], or use 127.0.0.1");
    }
    AdminPlan {
        address: address.value,
        token: admin.token.value.as_ref().map(|t: &Secret| t.reveal().clone()),
    }
}

fn distinct_addresses(listen: &Set<SocketAddr>, admin: &Set<SocketAddr>, problems: &mut Problems<'_>) {
    let (a, b) = (listen.value, admin.value);
    let same_ip = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    if listen.sound && admin.sound && a.port() == b.port() && a.port() != 0 && same_ip {
        let what = format!("clients ({a}) and the admin side ({b}) share an address");
        let (at, first, note) = match admin.origin {
            Origin::Default => (&listen.origin, &admin.origin, "the admin side's default"),
            _ => (&admin.origin, &listen.origin, "clients are served here"),
        };
        problems.conflict(at, what, first, note).hint("give the two different ports");
    }
}

fn usage(usage: &Usage, problems: &mut Problems<'_>) -> Option<UsagePlan> {
    let outputs = &usage.output.value.0;
    if outputs.is_empty() {
        problems
            .add(&usage.output.origin, "output: the list is empty")
            .hint("write \"off\" for no usage lines");
        return None;
    }
    let kind = |o: &Output| std::mem::discriminant(o);
    for (i, output) in outputs.iter().enumerate() {
        if let Some(first) = outputs[..i].iter().find(|o| kind(&o.value) == kind(&output.value)) {
            problems
                .conflict(&output.origin, "output: a second one of the same kind", &first.origin, "the first")
                .hint("one \"stdout\" and one \"file:PATH\" at most");
        } else if let Some(off) =
            outputs.iter().find(|o| o.value == Output::Off).filter(|_| output.value != Output::Off)
        {
            problems
                .conflict(&output.origin, "output: both on and off", &off.origin, "switched off here")
                .hint("leave one of them out");
        }
    }
    let file = outputs.iter().find_map(|o| match &o.value {
        Output::File(path) => Some((path.clone(), problems.place(&o.origin))),
        _ => None,
    });
    let (file, file_named) = file.unzip();
    Some(UsagePlan {
        stdout: outputs.iter().any(|o| o.value == Output::Stdout),
        file,
        file_named: file_named.unwrap_or_default(),
        rotate: usage.rotate.value.0,
        on_full: usage.on_full.value,
    })
}

/// Loopback, also where it is written as an IPv4 address inside IPv6.
fn loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

fn bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
