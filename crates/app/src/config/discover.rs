//! `discover`: where a pool's replicas are learned from while the gateway runs.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use sluicegate_proxy::plan::{Credential, ReplicaUrl};

use super::choices::{choices, unknown};
use super::diagnostics::{Origin, Problems};
use super::docs;
use super::names::Name;
use super::read::{KeyDoc, Node, Reader, Required, SectionDoc, Set, Value, joined, sections};
use super::secret::Secret;
use super::values::{Refusal, Text};

sections! {
    /// Where the pool's replicas are learned from, next to those in `replicas`. Which keys a source needs: see
    /// `docs/discovery.md`.
    Discover {
        /// Kind of source.
        source: Required<Kind> = Required(None),
        /// `file`: the file that lists the replicas, looked at every second.
        path: Option<Name> = None,
        /// `dns`: the name whose addresses are the replicas.
        name: Option<Name> = None,
        /// `dns`: the replicas' port, with `name`.
        port: Option<NonZero<u32>> = None,
        /// `dns`: the service whose SRV records are the replicas, instead of `name` and `port`.
        srv: Option<Name> = None,
        /// `dns`: the name server to ask. None: those of the system.
        server: Option<SocketAddr> = None,
        /// `gpustack`, `consul`, `nomad`: base URL of its API.
        url: Option<ReplicaUrl> = None,
        /// `gpustack`, `consul`, `nomad`: what its API asks for.
        token: Option<Secret> = None,
        /// `consul`, `nomad`: name of the service.
        service: Option<Name> = None,
        /// `gpustack`: the model's number.
        model_id: Option<NonZero<u32>> = None,
        /// `gpustack`: how the instances are reached, at their own port or through their worker.
        via: Via = Via::Direct,
    }
}

/// Kind of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Dns,
    GpuStack,
    Consul,
    Nomad,
}

/// How a GPUStack instance is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// At its own port.
    Direct,
    /// At its worker's port, with a header that names it.
    Worker,
}

choices! {
    Kind, "source" {
        "file" => Kind::File,
        "dns" => Kind::Dns,
        "gpustack" => Kind::GpuStack,
        "consul" => Kind::Consul,
        "nomad" => Kind::Nomad,
    } later { "kubernetes" }
    Via, "way to reach an instance" {
        "direct" => Via::Direct,
        "worker" => Via::Worker,
    } later {}
}

/// Where one pool's replicas are learned from.
#[derive(Debug, Clone)]
pub struct DiscoverPlan {
    /// Index into the plan's pools.
    pub pool: usize,
    /// The source.
    pub source: SourcePlan,
}

/// A source of replicas.
#[derive(Debug, Clone)]
pub enum SourcePlan {
    /// A file that is looked at.
    File(PathBuf),
    /// A name that is resolved.
    Dns {
        /// What is asked for.
        asked: DnsPlan,
        /// The name server; None: those of the system.
        server: Option<SocketAddr>,
    },
    /// The model instances of a GPUStack.
    GpuStack {
        /// Its API.
        api: ApiPlan,
        /// The model.
        model_id: u32,
        /// How they are reached.
        via: Via,
    },
    /// A service of Consul's catalogue.
    Consul {
        /// Its API.
        api: ApiPlan,
        /// Name of the service.
        service: Arc<str>,
    },
    /// A service of Nomad's catalogue.
    Nomad {
        /// Its API.
        api: ApiPlan,
        /// Name of the service.
        service: Arc<str>,
    },
}

/// What is asked of a name server.
#[derive(Debug, Clone)]
pub enum DnsPlan {
    /// The addresses of a name.
    Addresses {
        /// The name.
        name: Arc<str>,
        /// The replicas' port.
        port: u16,
    },
    /// The SRV records of a service.
    Services(Arc<str>),
}

/// An HTTP API that knows replicas.
#[derive(Debug, Clone)]
pub struct ApiPlan {
    /// Base URL.
    pub url: ReplicaUrl,
    /// What it asks for.
    pub token: Option<Credential>,
}

impl SourcePlan {
    /// The name of its kind, as in the file.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Dns { .. } => "dns",
            Self::GpuStack { .. } => "gpustack",
            Self::Consul { .. } => "consul",
            Self::Nomad { .. } => "nomad",
        }
    }

    /// What is looked at, in words.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::File(path) => format!("file {}", path.display()),
            Self::Dns { asked: DnsPlan::Addresses { name, port }, .. } => format!("dns {name} port {port}"),
            Self::Dns { asked: DnsPlan::Services(name), .. } => format!("dns srv {name}"),
            Self::GpuStack { api, model_id, .. } => format!("gpustack {} model {model_id}", api.url.text),
            Self::Consul { api, service } => format!("consul {} service {service}", api.url.text),
            Self::Nomad { api, service } => format!("nomad {} service {service}", api.url.text),
        }
    }
}

impl Kind {
    /// The keys that belong to it, the needed ones first and how many they are.
    const fn keys(self) -> (&'static [&'static str], usize) {
        match self {
            Self::File => (&["path"], 1),
            Self::Dns => (&["name", "port", "srv", "server"], 0),
            Self::GpuStack => (&["url", "model_id", "token", "via"], 2),
            Self::Consul | Self::Nomad => (&["url", "service", "token"], 2),
        }
    }
}

/// Judges what was given; None where it cannot be used.
pub(super) fn plan(discover: &Set<Discover>, problems: &mut Problems<'_>) -> Option<SourcePlan> {
    let keys = &discover.value;
    let kind = keys.source.value.0?;
    let given = [
        ("path", origin(&keys.path)),
        ("name", origin(&keys.name)),
        ("port", origin(&keys.port)),
        ("srv", origin(&keys.srv)),
        ("server", origin(&keys.server)),
        ("url", origin(&keys.url)),
        ("token", origin(&keys.token)),
        ("service", origin(&keys.service)),
        ("model_id", origin(&keys.model_id)),
        ("via", origin(&keys.via)),
    ];
    let (known, needed) = kind.keys();
    for (name, at) in given.iter().filter_map(|(name, at)| Some((*name, at.as_ref()?))) {
        if !known.contains(&name) {
            let what = format!("discover: \"{name}\" means nothing with source = \"{}\"", kind.text());
            problems.add(at, what).hint(format!("known there: {}", known.join(", ")));
        }
    }
    for name in &known[..needed] {
        if !given.iter().any(|(key, at)| key == name && at.is_some()) {
            missing(discover, name, kind, problems);
        }
    }
    source(kind, discover, problems)
}

fn source(kind: Kind, discover: &Set<Discover>, problems: &mut Problems<'_>) -> Option<SourcePlan> {
    let keys = &discover.value;
    let text = |name: &Set<Option<Name>>| name.value.as_ref().map(|name| Arc::clone(&name.0));
    let token = keys.token.value.as_ref().map(|secret| Credential(Arc::clone(secret.reveal())));
    let api = || Some(ApiPlan { url: keys.url.value.clone()?, token: token.clone() });
    match kind {
        Kind::File => Some(SourcePlan::File(PathBuf::from(&*text(&keys.path)?))),
        Kind::Dns => Some(SourcePlan::Dns { asked: dns(discover, problems)?, server: keys.server.value }),
        Kind::GpuStack => {
            let model_id = keys.model_id.value?.get();
            Some(SourcePlan::GpuStack { api: api()?, model_id, via: keys.via.value })
        }
        Kind::Consul => Some(SourcePlan::Consul { api: api()?, service: text(&keys.service)? }),
        Kind::Nomad => Some(SourcePlan::Nomad { api: api()?, service: text(&keys.service)? }),
    }
}

fn dns(discover: &Set<Discover>, problems: &mut Problems<'_>) -> Option<DnsPlan> {
    let keys = &discover.value;
    match (&keys.name.value, &keys.srv.value) {
        (Some(_), Some(_)) => {
            let (at, first) = (&keys.srv.origin, &keys.name.origin);
            let added = problems.conflict(at, "discover: both \"name\" and \"srv\"", first, "the other");
            added.hint("name with port for addresses, srv alone for SRV records");
            None
        }
        (None, None) => {
            if keys.name.sound && keys.srv.sound {
                let what = "discover: source = \"dns\" needs name and port, or srv";
                problems
                    .add(&discover.origin, what)
                    .hint("for example name = \"vllm.internal\", port = 8000");
            }
            None
        }
        (Some(name), None) => match keys.port.value.map(|port| u16::try_from(port.get())) {
            Some(Ok(port)) => Some(DnsPlan::Addresses { name: Arc::clone(&name.0), port }),
            Some(Err(_)) => {
                let what = "discover: that is not a port";
                problems.add(&keys.port.origin, what).hint("ports are numbers from 1 to 65535");
                None
            }
            None => {
                if keys.port.sound {
                    missing(discover, "port", Kind::Dns, problems);
                }
                None
            }
        },
        (None, Some(srv)) => {
            if keys.port.given() {
                let what = "discover: SRV records hold the ports themselves";
                problems.add(&keys.port.origin, what).hint("leave port out");
            }
            Some(DnsPlan::Services(Arc::clone(&srv.0)))
        }
    }
}

fn missing(discover: &Set<Discover>, name: &str, kind: Kind, problems: &mut Problems<'_>) {
    let what = format!("discover: source = \"{}\" needs \"{name}\"", kind.text());
    problems.add(&discover.origin, what).hint(format!("add {name} = ..."));
}

fn origin<T>(key: &Set<T>) -> Option<Origin> {
    key.given().then(|| key.origin.clone())
}
