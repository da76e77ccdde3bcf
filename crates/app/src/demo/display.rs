//! Where the demo's state is shown: redrawn in a terminal, else a plain line now and then.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::table::{Now, line, table};

/// A terminal or a log.
pub(super) enum Display {
    /// One bar without a bar for each line of the table.
    Terminal {
        screen: MultiProgress,
        lines: Vec<ProgressBar>,
    },
    Plain,
}

impl Display {
    pub(super) fn new() -> Self {
        if std::io::stdout().is_terminal() {
            let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
            Self::Terminal { screen, lines: Vec::new() }
        } else {
            Self::Plain
        }
    }

    /// How often there is something new to show.
    pub(super) const fn every(&self) -> Duration {
        match self {
            Self::Terminal { .. } => Duration::from_millis(500),
            Self::Plain => Duration::from_secs(2),
        }
    }

    pub(super) fn show(&mut self, now: &Now) {
        match self {
            Self::Terminal { screen, lines } => {
                let table = table(now);
                lines.resize_with(table.len(), || screen.add(text_line()));
                for (place, text) in lines.iter().zip(table) {
                    place.set_message(text);
                }
            }
            Self::Plain => {
                // A reader that has gone away does not end the demo.
                let _ = writeln!(std::io::stdout(), "{}", line(now));
            }
        }
    }
}

impl Drop for Display {
    /// Leaves the last state on the screen.
    fn drop(&mut self) {
        if let Self::Terminal { lines, .. } = self {
            lines.iter().for_each(ProgressBar::abandon);
        }
    }
}

fn text_line() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style)
}
