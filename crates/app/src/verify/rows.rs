//! The rows of the result: one for each promise and mode.

use sluicegate_lab::scenario::{Chooser, Finding, Scenario, Stage};

/// One promise in one mode.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: String,
    pub(crate) promise: String,
    /// The mode; `weighted` where the promise is about shares.
    pub(crate) mode: &'static str,
    /// Where it ran.
    pub(crate) stage: &'static str,
    pub(crate) findings: Vec<Finding>,
    pub(crate) verdict: Verdict,
}

/// What became of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Fail,
    /// Nothing runs it yet.
    Pending,
}

impl Verdict {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "FAIL",
            Self::Pending => "pending",
        }
    }
}

/// One thing to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) scenario: &'a Scenario,
    /// `None`: not in virtual time.
    pub(crate) chooser: Option<Chooser>,
}

impl<'a> Task<'a> {
    /// All that these scenarios ask for, in one mode or in all.
    pub(crate) fn all(scenarios: &'a [Scenario], mode: Option<Chooser>) -> Vec<Self> {
        let of = |scenario: &'a Scenario| -> Vec<Self> {
            match scenario.stage {
                Stage::Virtual => {
                    let asked =
                        scenario.modes.iter().filter(|chooser| mode.is_none_or(|mode| mode == **chooser));
                    asked.map(|chooser| Self { scenario, chooser: Some(*chooser) }).collect()
                }
                Stage::InProcess | Stage::Pending => vec![Self { scenario, chooser: None }],
            }
        };
        scenarios.iter().flat_map(of).collect()
    }

    pub(crate) fn row(&self, findings: Vec<Finding>) -> Row {
        let stage = match self.scenario.stage {
            Stage::Virtual => "virtual time",
            Stage::InProcess => "gateway in process",
            Stage::Pending => "-",
        };
        let verdict = match self.scenario.stage {
            Stage::Pending => Verdict::Pending,
            _ if !findings.is_empty() && findings.iter().all(|finding| finding.passed) => Verdict::Pass,
            _ => Verdict::Fail,
        };
        Row {
            id: self.scenario.id.clone(),
            promise: self.scenario.promise.clone(),
            mode: match (self.chooser, self.scenario.stage) {
                (Some(chooser), _) => chooser.name(),
                (None, Stage::InProcess) => "weighted",
                (None, _) => "-",
            },
            stage,
            findings,
            verdict,
        }
    }
}

/// Rows of one promise and mode become one, which passes where all of them do.
pub(crate) fn merged(rows: Vec<Row>) -> Vec<Row> {
    let mut merged: Vec<Row> = Vec::new();
    for row in rows {
        match merged.iter_mut().find(|other| (&other.id, other.mode) == (&row.id, row.mode)) {
            Some(other) => {
                other.findings.extend(row.findings);
                if row.verdict == Verdict::Fail {
                    other.verdict = Verdict::Fail;
                }
            }
            None => merged.push(row),
        }
    }
    merged
}
