//! The rim of the program: what touches the world stands in a few listed files, so that everything
//! else takes time, chance and settings as arguments and can be replayed.

use super::finding::Finding;
use super::source::{Repository, RustFile};

/// One thing that only some files may do. Test code is free of it.
struct Rim {
    what: &'static str,
    /// Tokens with spaces between them.
    sequences: &'static [&'static str],
    /// File, or folder ending in `/`, and why it may.
    allowed: &'static [(&'static str, &'static str)],
    mend: &'static str,
}

const XTASK: (&str, &str) = ("xtask/", "a chore, not part of the product");

const RIMS: &[Rim] = &[
    Rim {
        what: "a clock read",
        sequences: &["Instant :: now", "SystemTime :: now", "Utc :: now"],
        allowed: &[
            XTASK,
            ("bench/instrument/", "an instrument that measures time, not part of the product"),
            ("crates/proxy/src/clock.rs", "the data plane's one reading of time"),
            ("crates/lab/src/sim/realtime.rs", "the model's virtual time follows the real one here"),
            ("crates/lab/src/sim/wall_clock.rs", "engines stamp their answers with the time of day"),
            ("crates/lab/src/load/exchange.rs", "the load measures the answers it gets"),
            ("crates/lab/src/traffic/exchange.rs", "the traffic measures the answers it gets"),
            ("crates/app/src/decisions/call.rs", "how long a refused token rests"),
            ("crates/app/src/decisions/service.rs", "how long a decision service takes"),
            ("crates/app/src/demo.rs", "how long the demo has run, and its rates"),
            ("crates/app/src/usage_log.rs", "how often a loss of lines is warned about"),
            ("crates/app/src/usage_log/writer.rs", "when the writer thread collects what is left"),
        ],
        mend: "take the time as an argument",
    },
    Rim {
        what: "a new task",
        sequences: &["tokio :: spawn", "task :: spawn", "spawn_local", "spawn_blocking", "JoinSet :: new"],
        allowed: &[
            (
                "crates/proxy/src/server.rs",
                "a task for each connection, and each thread's sweep of idle ones",
            ),
            (
                "crates/proxy/src/control.rs",
                "a task for each pool's effects, and for each scrape it asks for",
            ),
            ("crates/proxy/src/scrape.rs", "hyper drives a scrape's connection in its own task"),
            (
                "crates/lab/src/decision/server.rs",
                "a task for the simulated decision service and for each of its connections",
            ),
            ("crates/lab/src/sim/server.rs", "a task for each connection of the simulated replicas"),
            ("crates/lab/src/load.rs", "a task for each session of the load"),
            ("crates/lab/src/traffic.rs", "a task for each session of the traffic"),
            ("crates/app/src/admin/connections.rs", "a task for each admin connection, within its limits"),
            (
                "crates/app/src/cli/ending.rs",
                "the end of a gateway blocks, and signals must be heard meanwhile",
            ),
            ("crates/app/src/demo.rs", "the gateway's start and end block, the simulated replicas must not"),
            ("crates/app/src/discovery.rs", "a task for each source of replicas"),
            ("crates/app/src/discovery/http.rs", "hyper drives a source's connection in its own task"),
            (
                "crates/app/src/verify/trial.rs",
                "likewise, where a promise is about the whole gateway; and bursts",
            ),
        ],
        mend: "return a future and let the caller spawn it",
    },
    Rim {
        what: "a new thread",
        sequences: &["thread :: spawn", "thread :: Builder", "thread :: scope"],
        allowed: &[
            ("crates/proxy/src/server.rs", "the data-plane threads and the one for scrapes"),
            ("crates/app/src/usage_log.rs", "writing usage lines must never block a request"),
            ("crates/app/src/admin.rs", "the admin listener has a runtime of its own"),
            ("crates/app/src/decisions.rs", "decision services are slow, and asked on no data-plane thread"),
            ("crates/app/src/discovery.rs", "sources of replicas are slow, and in nobody's way"),
            ("crates/app/src/replay/runs.rs", "simulations of different policies run side by side"),
            ("crates/app/src/verify/runs.rs", "scenarios run side by side"),
        ],
        mend: "use the runtime there is",
    },
    Rim {
        what: "a queue without a bound",
        sequences: &["unbounded_channel", "mpsc :: channel ( )"],
        allowed: &[(
            "crates/lab/src/sim/realtime.rs",
            "one sequence's tokens: no more than the request's own limit of output tokens",
        )],
        mend: "give it a bound; a slow reader must cost bounded memory",
    },
    Rim {
        what: "an end of the process",
        sequences: &["process :: exit", "process :: abort"],
        allowed: &[],
        mend: "return an error; main turns it into an exit code",
    },
    Rim {
        what: "a read of the environment",
        sequences: &["env :: var", "env :: var_os", "env :: vars", "env :: args", "env :: args_os"],
        allowed: &[
            XTASK,
            ("crates/app/src/config.rs", "secrets written as env:NAME"),
            ("crates/app/src/cli/load/asked.rs", "the key, which must not stand on a command line"),
            ("crates/app/src/cli/logging.rs", "RUST_LOG, whose mistakes are told"),
            (
                "crates/app/src/cli/explain.rs",
                "the admin listener's token, which must not stand on a command line",
            ),
        ],
        mend: "take the value as an argument; configuration resolves `env:NAME`",
    },
];

/// Crates that must not do a thing at all, whatever the lists above say.
const PURE: &[(&str, &[&str])] = &[
    (
        "crates/core/src/",
        &["async", "std :: fs", "std :: net", "std :: thread", "std :: io", "Instant", "serde"],
    ),
    ("crates/wire/src/", &["async", "std :: fs", "std :: thread", "Instant", "TcpStream"]),
];

/// Looks for every act outside its list, and for list entries that nothing needs.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings: Vec<Finding> = repository.rust.iter().flat_map(acts_in).collect();
    for rim in RIMS {
        for (place, _) in rim.allowed {
            let used = repository.rust.iter().any(|file| {
                covers(place, &file.path)
                    && rim.sequences.iter().any(|sequence| !file.lines_of(sequence).is_empty())
            });
            if !used {
                let what = format!("{place} is listed for {} and does not need it", rim.what);
                findings.push(Finding::error("xtask/src/tidy/rims.rs", 1, what, "take the entry out"));
            }
        }
    }
    findings
}

fn covers(place: &str, path: &str) -> bool {
    path == place || (place.ends_with('/') && path.starts_with(place))
}

fn acts_in(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let product_lines =
        |sequence| file.lines_of(sequence).into_iter().filter(|line| !file.is_test_line(*line));
    for rim in RIMS {
        if rim.allowed.iter().any(|(place, _)| covers(place, &file.path)) {
            continue;
        }
        for line in rim.sequences.iter().flat_map(|sequence| product_lines(sequence)) {
            let mend = format!("{}; a reason for this file goes into xtask/src/tidy/rims.rs", rim.mend);
            findings.push(Finding::error(&file.path, line, rim.what, mend));
        }
    }
    for (folder, sequences) in PURE.iter().filter(|(folder, _)| file.path.starts_with(folder)) {
        for sequence in *sequences {
            for line in product_lines(sequence) {
                let what = format!("`{sequence}` in {folder}, which is pure");
                findings.push(Finding::error(&file.path, line, what, "take the outcome as an argument"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source::{Repository, RustFile};
    use super::{acts_in, check, covers};

    #[test]
    fn acts_are_found_outside_their_lists() {
        let cases = [
            ("crates/app/src/a.rs", "fn f() { let t = Instant::now(); }", 1),
            ("crates/app/src/a.rs", "fn f() { let t = std::time::Instant::now(); }", 1),
            ("xtask/src/a.rs", "fn f() { let t = Instant::now(); }", 0),
            ("crates/app/tests/a.rs", "fn f() { std::thread::spawn(g); }", 0),
            ("crates/app/src/a.rs", "fn f() { std::process::exit(1); }", 1),
            ("crates/core/src/a.rs", "async fn f() {}", 1),
            ("crates/core/src/a.rs", "#[cfg(test)] mod tests { async fn f() {} }", 0),
            ("crates/wire/src/a.rs", "use std::fs;", 1),
        ];
        for (path, text, expected) in cases {
            let file = RustFile::parse(path, text).expect("it parses");
            assert_eq!(acts_in(&file).len(), expected, "{path} {text}");
        }
    }

    #[test]
    fn an_entry_that_nothing_needs_is_reported() {
        let findings = check(&Repository::of_rust(&[("xtask/src/a.rs", "fn f() { Instant::now(); }")]));
        assert!(
            findings.iter().any(|finding| finding.what.contains("xtask/ is listed for a read of the env"))
        );
        assert!(!findings.iter().any(|finding| finding.what.contains("xtask/ is listed for a clock read")));
    }

    #[test]
    fn a_folder_covers_what_is_below_it() {
        assert!(covers("crates/a/", "crates/a/src/b.rs"));
        assert!(covers("crates/a/b.rs", "crates/a/b.rs"));
        assert!(!covers("crates/a/b", "crates/a/b.rs"));
    }
}
