//! The log on standard error, and what `RUST_LOG` says about it.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts the log; `default` is the level where `RUST_LOG` says nothing that can be understood.
pub(super) fn start(default: &str) {
    let asked = std::env::var_os("RUST_LOG").map(|asked| asked.to_string_lossy().into_owned());
    let (filter, complaint) = filter(asked.as_deref().unwrap_or_default(), default);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    if let Some(complaint) = complaint {
        tracing::warn!("{complaint}");
    }
}

/// The filter that `asked` means, and what is wrong with it. A slip of the pen must not switch the log off, and that is
/// what a misspelt level would do: a word by itself that is no level is read as the name of a module.
fn filter(asked: &str, default: &str) -> (EnvFilter, Option<String>) {
    let fallback = || EnvFilter::new(default);
    let mut directives = asked.split(',').map(str::trim).filter(|directive| !directive.is_empty()).peekable();
    if directives.peek().is_none() {
        return (fallback(), None);
    }
    let wrong = match directives.find(|directive| !understood(directive)) {
        Some(directive) => format!("\"{directive}\" is no level"),
        None => match EnvFilter::builder().parse(asked) {
            Ok(filter) => return (filter, None),
            Err(error) => error.to_string(),
        },
    };
    let known = LEVELS.join(", ");
    let complaint =
        format!("RUST_LOG={asked}: {wrong}; logging at {default}. Levels: {known}; or MODULE=LEVEL,...");
    (fallback(), Some(complaint))
}

fn understood(directive: &str) -> bool {
    let word = directive.chars().all(|c| c.is_ascii_alphanumeric());
    !word || LEVELS.iter().any(|level| level.eq_ignore_ascii_case(directive)) || directive == "sluicegate"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_understood_is_said_and_never_switches_the_log_off() {
        for (asked, means, complains) in [
            ("", "info", false),
            (" , ", "info", false),
            ("debug", "debug", false),
            ("WARN", "warn", false),
            ("off", "off", false),
            ("sluicegate_proxy=debug,warn", "sluicegate_proxy=debug,warn", false),
            ("inof", "info", true),
            ("warn,inof", "info", true),
            ("sluicegate=inof", "info", true),
            ("sluicegate_proxy=debug,,", "sluicegate_proxy=debug", false),
        ] {
            let (filter, complaint) = filter(asked, "info");
            assert_eq!(filter.to_string(), means, "{asked:?}");
            assert_eq!(complaint.is_some(), complains, "{asked:?}: {complaint:?}");
        }
    }
}
