//! The configuration: a file and flags in, a validated plan out, or everything that is wrong with them at once.
//!
//! `raw` declares the keys, `read` walks the document, `resolve` judges and builds the plan. A new key is a line in
//! `raw` and its use in `resolve`; the reference and the schema follow by themselves.

mod amounts;
mod choices;
mod decision;
mod diagnostics;
mod discover;
mod docs;
mod headers;
mod key_hash;
mod names;
mod nearest;
mod raw;
mod read;
mod replica_url;
mod resolve;
mod secret;
mod session_keys;
mod source;
mod summary;
mod units;
mod values;

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sluicegate_proxy::Plan;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub use choices::OnFull;
pub use decision::DecisionServicePlan;
pub use diagnostics::Diagnostics;
pub use discover::{ApiPlan, DiscoverPlan, DnsPlan, SourcePlan, Via};
pub use docs::{DocsFormat, config_docs};
pub(crate) use nearest::nearest;

use crate::bounded_file;
use diagnostics::{Origin, Problems};
use read::{Reader, Value};
use source::Source;

/// What the command line says over the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// Base URLs: the replicas of the only pool, which is made where the file has none.
    pub replicas: Vec<String>,
    /// The client side's address.
    pub listen: Option<SocketAddr>,
    /// The admin side's address.
    pub admin: Option<SocketAddr>,
    /// Data-plane threads; 0: one per core.
    pub threads: Option<usize>,
    /// Everybody who reaches the client side's address may use the gateway.
    pub open: bool,
    /// Where usage lines go: `off`, `stdout`, or the file's path.
    pub usage: Option<String>,
}

/// The admin listener.
#[derive(Clone)]
pub struct AdminPlan {
    /// Address to bind; port 0 takes a free one.
    pub address: SocketAddr,
    /// Bearer token that every request must carry. None only on loopback.
    pub token: Option<Arc<str>>,
}

impl std::fmt::Debug for AdminPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = self.token.as_ref().map(|_| "***");
        f.debug_struct("AdminPlan").field("address", &self.address).field("token", &token).finish()
    }
}

/// Where usage lines go. Neither `stdout` nor `file`: nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsagePlan {
    /// Write them to standard output.
    pub stdout: bool,
    /// Append them to this file.
    pub file: Option<PathBuf>,
    /// Where the configuration names `file`, as findings tell places.
    pub file_named: String,
    /// Bytes at which the file is put aside and a new one begun.
    pub rotate: u64,
    /// When the writer cannot keep up.
    pub on_full: OnFull,
}

/// A configuration without errors.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// For the data plane.
    pub plan: Plan,
    /// For the admin side.
    pub admin: AdminPlan,
    /// For the usage writer.
    pub usage: UsagePlan,
    /// Where replicas are learned from, besides those of the plan.
    pub discover: Vec<DiscoverPlan>,
    /// The decision services that routes ask, as their plans number them.
    pub decisions: Vec<DecisionServicePlan>,
    /// What is allowed and probably not meant, each with its place.
    pub warnings: Vec<String>,
    changes: Vec<String>,
}

impl Loaded {
    /// What was understood, in lines of text. Holds no secret.
    #[must_use]
    pub fn summary(&self) -> String {
        summary::summary(self)
    }
}

/// Loads configurations.
#[derive(Debug, Clone, Copy)]
pub struct Config;

impl Config {
    /// Reads the file at `path` (`-`: standard input), or none, and puts `overrides` over it. Secrets are read from
    /// the process's environment and from the files they name.
    ///
    /// # Errors
    /// Everything that is wrong with the file and the overrides.
    pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Loaded, Diagnostics> {
        let environment = |name: &str| std::env::var(name).ok();
        let Some(path) = path else {
            return Self::from_text("command line", "", overrides, &environment);
        };
        let (name, bytes) = match path.as_os_str() == "-" {
            true => ("standard input".to_owned(), from_stdin()),
            false => (path.display().to_string(), bounded_file::read(path, bounded_file::WRITTEN_BY_HAND)),
        };
        let text = bytes.map_err(|e| e.to_string()).and_then(|bytes| {
            String::from_utf8(bytes)
                .map_err(|e| format!("not UTF-8 from byte {} on", e.utf8_error().valid_up_to()))
        });
        match text {
            Ok(text) => Self::from_text(&name, &text, overrides, &environment),
            Err(why) => {
                let source = Source::new(&name, "");
                let mut problems = Problems::new(&source);
                problems.add(&Origin::Default, format!("the file cannot be read: {why}"));
                problems.finish(None)
            }
        }
    }

    /// The same for a `text` that is already there; `name` stands for the file in errors, `environment` looks up
    /// the variables that secrets name.
    ///
    /// # Errors
    /// Everything that is wrong with the text and the overrides. A text that is no TOML is not looked into further.
    pub fn from_text(
        name: &str,
        text: &str,
        overrides: &Overrides,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Loaded, Diagnostics> {
        let mut source = Source::new(name, text);
        let (document, errors) = DeTable::parse_recoverable(text);
        match errors.as_slice() {
            [] => source.mask_secrets(document.get_ref()),
            _ => source.mask_secret_lines(),
        }
        let mut problems = Problems::new(&source);
        if !errors.is_empty() {
            errors.iter().for_each(|error| syntax_error(error, &mut problems));
            return problems.finish(None);
        }
        let span = document.span();
        let root = Spanned::new(span, DeValue::Table(document.into_inner()));
        let mut reader = Reader::new(problems, environment);
        let file = raw::File::read(&root, &mut reader).unwrap_or_default();
        let mut problems = reader.problems;
        let loaded = resolve::resolve(file, overrides, &host_name(), &mut problems);
        problems.finish(loaded)
    }
}

fn from_stdin() -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An address as it is written on the command line, judged in the words of the file.
///
/// # Errors
/// What is wrong with it, and how to mend it.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    match values::Text::parse(text) {
        Ok(address) => Ok(address),
        Err(values::Refusal::Wrong(what, hint)) => Err(format!("{what}\n  hint: {hint}")),
        Err(values::Refusal::NotYet(what)) => Err(format!("{what} is not supported yet in this version")),
    }
}

fn syntax_error(error: &toml::de::Error, problems: &mut Problems<'_>) {
    let at = error.span().map_or(Origin::Default, Origin::File);
    let message = match error.span() {
        Some(span) if span.is_empty() && error.message().starts_with("string values must be quoted") => {
            "the value is missing"
        }
        _ => error.message().trim_end_matches(", expected nothing"),
    };
    let unquoted =
        ["invalid float", "invalid integer", "invalid datetime", "must be quoted", "invalid boolean"];
    let added = problems.add(&at, format!("not TOML: {message}"));
    if ["expected `\"`", "expected `'`"].iter().any(|part| message.contains(part)) {
        added.hint("the quote at the end of the text is missing");
    } else if unquoted.iter().any(|part| message.contains(part)) {
        added.hint("texts, addresses, durations and sizes stand in quotes: \"3s\"");
    }
}

/// The host's name as Linux tells it; without one, the program's.
fn host_name() -> String {
    let read = |path| std::fs::read_to_string(path).ok();
    let name = read("/proc/sys/kernel/hostname").or_else(|| read("/etc/hostname")).unwrap_or_default();
    match name.trim() {
        "" => "sluicegate".into(),
        name => name.into(),
    }
}
