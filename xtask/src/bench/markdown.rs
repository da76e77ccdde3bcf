//! The table as a page of Markdown.

use super::peers::GATEWAY;
use super::results::Results;
use super::table::ROWS;

/// Table, then what is to be known about it.
pub(super) fn page(results: &Results) -> String {
    format!("{}\n{}", table(results), provenance(results))
}

/// Rows of work, columns of candidates; the gateway stands out.
pub(super) fn table(results: &Results) -> String {
    let names: Vec<&str> = results.versions.iter().map(|(name, _)| name.as_str()).collect();
    let mut text = format!("| work | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for row in ROWS.iter().filter(|row| results.has(row.workload)) {
        let cells = names.iter().map(|name| match row.figure(results, name) {
            None => "failed".to_owned(),
            Some(figure) => {
                let bold = if *name == GATEWAY { "**" } else { "" };
                let (least, most) = (row.shown(figure.least), row.shown(figure.most));
                let spread = if least == most { String::new() } else { format!(" ({least}-{most})") };
                format!("{bold}{}{bold}{spread}", row.shown(figure.median))
                    .replace(" KiB-", "-")
                    .replace(" MiB-", "-")
            }
        });
        text += &format!("| {} | {} |\n", row.label, cells.collect::<Vec<_>>().join(" | "));
    }
    text
}

/// Versions, machine, command; what is missing; what failed.
fn provenance(results: &Results) -> String {
    let versions: Vec<String> =
        results.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let mut text = format!(
        "CPU and latency are ratios to nginx in the same round; medians, in brackets minimum and maximum. {}. \
         {} cores, {}, Linux {}. Taken with `{}`.\n",
        versions.join(", "),
        results.cores,
        results.processor,
        results.kernel,
        results.command
    );
    for remark in &results.remarks {
        text += &format!("\n- Note: {remark}.");
    }
    for (name, why) in &results.missing {
        text += &format!("\n- **{name} is missing**: {why}.");
    }
    for line in failures(results) {
        text += &format!("\n- {line}");
    }
    match &results.threads {
        None => {}
        Some(Ok(report)) => {
            text += &format!("\n- Two data-plane threads: {}.", report["told"].as_str().unwrap_or(""))
        }
        Some(Err(why)) => text += &format!("\n- Two data-plane threads: not measured, {why}."),
    }
    text.trim_end().to_owned() + "\n"
}

/// Each candidate's first failure or error in each test, and answers that did not arrive as they were.
fn failures(results: &Results) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut told: Vec<(&str, &str)> = Vec::new();
    for sample in &results.samples {
        let place = (sample.candidate.as_str(), sample.workload.as_str());
        if told.contains(&place) {
            continue;
        }
        let line = match &sample.outcome {
            Err(why) => Some(format!("{} failed in `{}`: {why}", place.0, place.1)),
            Ok(report) => {
                let count = |name: &str| report[name].as_u64().unwrap_or(0);
                let errors = count("errors");
                (errors > 0).then(|| {
                    let first = report["first_error"].as_str().unwrap_or("unknown");
                    format!("{} had {errors} errors in `{}`, the first: {first}", place.0, place.1)
                })
            }
        };
        if let Some(line) = line {
            lines.push(line.replace('\n', " "));
            told.push(place);
        }
    }
    lines.extend(changed(results));
    lines
}

fn changed(results: &Results) -> Option<String> {
    let alters = |name: &str| {
        results.samples.iter().any(|sample| {
            sample.candidate == name
                && sample.outcome.as_ref().is_ok_and(|report| report["changed"].as_u64() > Some(0))
        })
    };
    let names: Vec<&str> =
        results.versions.iter().map(|(name, _)| name.as_str()).filter(|name| alters(name)).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Answers did not arrive byte for byte as the replica sent them through: {}.",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::run;
    use super::page;

    #[test]
    fn the_page_tells_figures_and_what_is_missing_or_failed() {
        let page = page(&run());
        let wanted = [
            "| work | nginx | envoy | sluicegate |\n|---|---|---|---|\n",
            "| small request (1 KB), CPU | 1.00 | failed | **0.75** (0.70-0.80) |\n",
            "nginx 1.2, envoy 1.2, sluicegate 1.2.",
            "- **haproxy is missing**: not installed.",
            "- envoy failed in `small`: it burst",
        ];
        for part in wanted {
            assert!(page.contains(part), "{part} is not in:\n{page}");
        }
        assert!(!page.contains("streamed chunk"), "a test that did not run has no row");
    }
}
