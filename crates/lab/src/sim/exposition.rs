//! Prometheus text as Python's client writes it.

use super::histogram::Histogram;
use std::fmt::Write;

/// A page under construction. Every family of an engine carries `engine` and `model_name`.
#[derive(Debug)]
pub(super) struct Page {
    text: String,
    model: String,
    created: String,
}

/// One label beside `engine` and `model_name`.
pub(super) type Label<'a> = (&'a str, &'a str);

impl Page {
    /// `created`: seconds since 1970 that `_created` series tell.
    pub(super) fn new(model: &str, created: f64) -> Self {
        let mut escaped = String::new();
        for character in model.chars() {
            match character {
                '\\' => escaped.push_str("\\\\"),
                '"' => escaped.push_str("\\\""),
                '\n' => escaped.push_str("\\n"),
                other => escaped.push(other),
            }
        }
        // A page of this kind has some 45 KB.
        Self { text: String::with_capacity(48 << 10), model: escaped, created: number(created) }
    }

    pub(super) fn finish(self) -> String {
        self.text
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, series: &[(Option<Label<'_>>, f64)]) {
        self.family(name, help, "gauge");
        for (label, value) in series {
            let labels = self.labels(*label);
            self.line(name, &labels, *value);
        }
    }

    /// `name` without `_total`; the `_created` gauges follow, as Python's client has them.
    pub(super) fn counter(&mut self, name: &str, help: &str, series: &[(Option<Label<'_>>, u64)]) {
        let total = format!("{name}_total");
        self.family(&total, help, "counter");
        for (label, value) in series {
            let labels = self.labels(*label);
            self.line(&total, &labels, *value as f64);
        }
        let labels: Vec<_> = series.iter().map(|(label, _)| self.labels(*label)).collect();
        self.created(name, help, &labels);
    }

    pub(super) fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, help, "histogram");
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.cumulative() {
            let labels = self.labels(Some(("le", &number(bound))));
            self.line(&bucket, &labels, count as f64);
        }
        let labels = self.labels(None);
        self.line(&format!("{name}_count"), &labels, histogram.count() as f64);
        self.line(&format!("{name}_sum"), &labels, histogram.sum());
        self.created(name, help, &[labels]);
    }

    /// Series with labels of their own, already written, without `engine` and `model_name`.
    pub(super) fn plain(&mut self, name: &str, help: &str, kind: &str, series: &[(String, f64)]) {
        self.family(name, help, kind);
        for (labels, value) in series {
            self.line(name, labels, *value);
        }
    }

    fn family(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a String cannot fail.
        let _ok = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: f64) {
        let value = number(value);
        let _ok = if labels.is_empty() {
            writeln!(self.text, "{name} {value}")
        } else {
            writeln!(self.text, "{name}{{{labels}}} {value}")
        };
    }

    fn created(&mut self, name: &str, help: &str, label_sets: &[String]) {
        let name = format!("{name}_created");
        self.family(&name, help, "gauge");
        for labels in label_sets {
            let _ok = writeln!(self.text, "{name}{{{labels}}} {}", self.created);
        }
    }

    /// Labels in the order of their names, as Python's client sorts them.
    fn labels(&self, extra: Option<Label<'_>>) -> String {
        let mut labels = vec![("engine", "0"), ("model_name", self.model.as_str())];
        labels.extend(extra);
        labels.sort_unstable();
        let pairs: Vec<_> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        pairs.join(",")
    }
}

/// A number as Python's client writes it: always with a point, from 1,000,000 on with an exponent.
fn number(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value < 1_000_000.0 {
        return format!("{value:?}");
    }
    let digits = format!("{value:e}");
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    format!("{mantissa}e+{exponent:0>2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_pythons_client() {
        let table = [
            (0.0, "0.0"),
            (1974.0, "1974.0"),
            (0.001, "0.001"),
            (999_999.5, "999999.5"),
            (1_000_000.0, "1e+06"),
            (1_795_989_592.169_103_1, "1.7959895921691031e+09"),
            (2_130_000.0, "2.13e+06"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, text) in table {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn labels_are_sorted_and_escaped() {
        let page = Page::new("a\"b\\c", 0.0);
        assert_eq!(page.labels(Some(("le", "1.0"))), r#"engine="0",le="1.0",model_name="a\"b\\c""#);
        assert_eq!(page.labels(Some(("reason", "x"))), r#"engine="0",model_name="a\"b\\c",reason="x""#);
    }
}
