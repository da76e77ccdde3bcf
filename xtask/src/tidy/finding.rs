//! What a rule reports.

/// Whether a finding fails the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// Fails the run.
    Error,
    /// Is shown and does not fail the run.
    Warning,
}

/// One broken rule at one place.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) path: String,
    /// From 1.
    pub(super) line: usize,
    pub(super) what: String,
    pub(super) mend: String,
}

impl Finding {
    pub(super) fn error(path: &str, line: usize, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { severity: Severity::Error, path: path.to_owned(), line, what: what.into(), mend: mend.into() }
    }

    pub(super) fn warning(path: &str, line: usize, what: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(path, line, what, mend) }
    }

    /// `file:line: level[rule]: what; mend: how`, which editors can jump to.
    pub(super) fn shown(&self, rule: &str) -> String {
        let level = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        format!("{}:{}: {level}[{rule}]: {}; mend: {}", self.path, self.line, self.what, self.mend)
    }
}
