//! Everything that a run measured.

use serde_json::{Value, json};

use super::machine::Machine;

/// One measurement.
pub(super) struct Sample {
    pub(super) candidate: String,
    pub(super) workload: String,
    pub(super) round: usize,
    /// The load's report, or why there is none.
    pub(super) outcome: Result<Value, String>,
}

/// A run.
pub(super) struct Results {
    pub(super) cores: usize,
    pub(super) processor: String,
    pub(super) kernel: String,
    pub(super) remarks: Vec<String>,
    pub(super) command: String,
    /// Candidates that were measured, with their versions.
    pub(super) versions: Vec<(String, String)>,
    /// Candidates that were asked for and are not there, with the reason.
    pub(super) missing: Vec<(String, String)>,
    pub(super) samples: Vec<Sample>,
    pub(super) threads: Option<Result<Value, String>>,
}

impl Sample {
    /// For the progress of a run.
    pub(super) fn line(&self) -> String {
        let name = format!("{} {} round {}", self.candidate, self.workload, self.round + 1);
        match &self.outcome {
            Err(why) => format!("{name}: FAILED, {why}"),
            Ok(report) => {
                let number = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0);
                let (unit, count) =
                    if number("/tokens") > 0.0 { ("token", "token") } else { ("request", "request") };
                let errors = match number("/errors") {
                    0.0 => String::new(),
                    errors => format!(", {errors} ERRORS: {}", report["first_error"]),
                };
                format!(
                    "{name}: {:.2} us CPU a {unit}, {:.0} {count}s/s, core {:.0} %, p50 {:.0} us{errors}",
                    number(&format!("/cpu_us_per_{unit}")),
                    number(&format!("/{count}s_per_second")),
                    number("/cpu_share") * 100.0,
                    number("/latency_us/p50"),
                )
            }
        }
    }
}

impl Results {
    pub(super) fn new(machine: &Machine, command: String) -> Self {
        Self {
            cores: machine.cores,
            processor: machine.processor.clone(),
            kernel: machine.kernel.clone(),
            remarks: machine.remarks(),
            command,
            versions: Vec::new(),
            missing: Vec::new(),
            samples: Vec::new(),
            threads: None,
        }
    }

    /// A candidate's figure in each round of a test, `None` where it failed.
    pub(super) fn figures(&self, candidate: &str, workload: &str, pointer: &str) -> Vec<Option<f64>> {
        let of = |sample: &&Sample| sample.candidate == candidate && sample.workload == workload;
        let figure = |sample: &Sample| sample.outcome.as_ref().ok()?.pointer(pointer)?.as_f64();
        self.samples.iter().filter(of).map(figure).collect()
    }

    pub(super) fn has(&self, workload: &str) -> bool {
        self.samples.iter().any(|sample| sample.workload == workload)
    }

    pub(super) fn to_json(&self) -> Value {
        let sample = |sample: &Sample| {
            json!({
                "candidate": sample.candidate,
                "test": sample.workload,
                "round": sample.round,
                "report": sample.outcome.as_ref().ok(),
                "failure": sample.outcome.as_ref().err(),
            })
        };
        let pairs = |pairs: &[(String, String)]| -> Value {
            pairs.iter().map(|(name, text)| (name.clone(), Value::from(text.clone()))).collect()
        };
        json!({
            "command": self.command,
            "machine": {
                "cores": self.cores,
                "processor": self.processor,
                "kernel": self.kernel,
                "remarks": self.remarks,
            },
            "versions": pairs(&self.versions),
            "missing": pairs(&self.missing),
            "samples": self.samples.iter().map(sample).collect::<Vec<_>>(),
            "threads": self.threads.as_ref().map(|threads| match threads {
                Ok(report) => report.clone(),
                Err(why) => json!({ "failure": why }),
            }),
        })
    }
}
