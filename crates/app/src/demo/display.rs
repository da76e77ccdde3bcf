//! Where the demo's state is shown: redrawn in a terminal, else a plain line now and then.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::table::{Now, legend, line, table};
use crate::cli::write_out;

/// A terminal or a log.
pub(super) enum Display {
    /// One bar without a bar for each line of the table.
    Terminal { screen: MultiProgress, lines: Vec<ProgressBar> },
    /// Whether the legend has been written.
    Plain { explained: bool },
}

impl Display {
    pub(super) fn new() -> Self {
        if std::io::stdout().is_terminal() {
            let screen = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
            Self::Terminal { screen, lines: Vec::new() }
        } else {
            Self::Plain { explained: false }
        }
    }

    /// How often there is something new to show.
    pub(super) const fn every(&self) -> Duration {
        match self {
            Self::Terminal { .. } => Duration::from_millis(500),
            Self::Plain { .. } => Duration::from_secs(2),
        }
    }

    /// Shows it, or says that nobody reads it any more.
    pub(super) fn show(&mut self, now: &Now) -> io::Result<()> {
        match self {
            Self::Terminal { screen, lines } => {
                let table = table(now);
                lines.resize_with(table.len(), || screen.add(text_line()));
                for (place, text) in lines.iter().zip(table) {
                    place.set_message(text);
                }
            }
            Self::Plain { explained } => {
                if !std::mem::replace(explained, true) {
                    write_out(&legend(now))?;
                }
                write_out(&format!("{}\n", line(now)))?;
            }
        }
        Ok(())
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

/// A line that is cut at the terminal's edge: a wrapped one would push the table out of its place.
fn text_line() -> ProgressBar {
    let style =
        ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    ProgressBar::new_spinner().with_style(style)
}
