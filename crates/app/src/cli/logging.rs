//! The log on standard error, and what `RUST_LOG` says about it.

use std::io::{self, IsTerminal as _, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;

use crate::usage_sums::plain;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Starts the log; `default` is the level where `RUST_LOG` says nothing that can be understood.
pub(super) fn start(default: &str) {
    let asked = std::env::var_os("RUST_LOG").map(|asked| asked.to_string_lossy().into_owned());
    let (filter, complaint) = filter(asked.as_deref().unwrap_or_default(), default);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .fmt_fields(one_line())
        .with_writer(|| Unheard(io::stderr()))
        .with_ansi(io::stderr().is_terminal())
        .init();
    if let Some(complaint) = complaint {
        tracing::warn!("{complaint}");
    }
}

/// Replicas and clients choose some of the texts (names of models): none of them may begin a line of its own or steer
/// the terminal.
fn one_line() -> impl for<'w> FormatFields<'w> + Send + Sync + 'static {
    debug_fn(|writer, field, value| {
        let value = plain(&format!("{value:?}"));
        match field.name() {
            "message" => write!(writer, "{value}"),
            name => write!(writer, "{name}={value}"),
        }
    })
    .delimited(" ")
}

/// Writes where nobody may listen. The subscriber would tell of a failed write by a macro that panics where that fails
/// too.
struct Unheard<W>(W);

impl<W: Write> Write for Unheard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
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
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_text_of_somebody_else_stays_inside_its_line() {
        let kept = Kept::default();
        let writer = kept.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(one_line())
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .without_time()
            .finish();
        let name = "a\n ERROR forged\r\u{1b}[2J\u{9b}2J\u{202e}b";
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(models = %name, model = name, "replica serves {name}");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches('\n').count(), 1, "{text:?}");
        assert!(text.ends_with('\n') && text.matches("forged").count() == 3, "{text:?}");
        let steers = |c: &char| (c.is_control() && *c != '\n') || *c == '\u{202e}';
        assert_eq!(text.chars().find(steers), None, "{text:?}");
        assert!(text.contains("replica serves a\\u{a} ERROR forged"), "{text:?}");
    }

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
