//! Runs as one HTML page that needs nothing but itself: the table, and plots as inline SVG.

mod curves;
mod plot;

use std::fmt::Write as _;

use super::{Facts, PolicyRun, table};

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:64em;padding:0 1em;color:#222;background:#fff}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}\
td:first-child,th:first-child{text-align:left}\
i{display:inline-block;width:.8em;height:.8em;margin-right:.5em;border-radius:.2em}\
svg{max-width:100%;height:auto}";

/// The page.
///
/// # Errors
/// A plot cannot be drawn.
pub(crate) fn render(facts: &Facts, runs: &[PolicyRun]) -> anyhow::Result<String> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Replay of {0}</title>\n\
         <style>{STYLE}</style>\n<h1>Replay of {0}</h1>\n<p>{1}</p>\n",
        escaped(&facts.trace),
        escaped(&facts.line())
    );
    page.push_str(&rows(runs));
    page.push_str(
        "<p>Times are seconds of requests that ended well: TTFT from arrival to first byte, E2E to the last. Hit: \
         prompt tokens that came from a replica's cache. Imbalance: most minus fewest open requests of the replicas, \
         mean over the time of arrivals.</p>\n",
    );
    for plot in curves::all(runs) {
        write!(page, "<h2>{}</h2>\n{}\n", escaped(plot.title), plot::svg(&plot)?)?;
    }
    page.push_str("</html>\n");
    Ok(page)
}

fn rows(runs: &[PolicyRun]) -> String {
    let heading: String = table::HEADINGS.map(|name| format!("<th>{}</th>", escaped(name))).concat();
    let mut out = format!("<table>\n<tr>{heading}</tr>\n");
    for (index, run) in runs.iter().enumerate() {
        let cells = table::row(run);
        let cells = cells.iter().map(|cell| escaped(cell)).enumerate().map(|(column, cell)| match column {
            0 => format!("<td><i style=\"background:{}\"></i>{cell}</td>", plot::css_color(index)),
            _ => format!("<td>{cell}</td>"),
        });
        out.push_str("<tr>");
        out.extend(cells);
        out.push_str("</tr>\n");
    }
    out + "</table>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
