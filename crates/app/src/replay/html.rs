//! Runs as one HTML page that needs nothing but itself: the table, and plots as inline SVG.

mod curves;
mod plot;

use std::fmt::Write as _;

use super::table::{self, Rows};
use super::{Facts, PolicyRun};

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:64em;padding:0 1em;color:#222;background:#fff}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
td,th{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}\
.n{text-align:left}\
i{display:inline-block;width:.8em;height:.8em;margin-right:.5em;border-radius:.2em}\
svg{max-width:100%;height:auto}";

/// The page of policies.
///
/// # Errors
/// A plot cannot be drawn.
pub(crate) fn render(facts: &Facts, runs: &[PolicyRun]) -> anyhow::Result<String> {
    page(facts, &[], &table::rows(runs), &runs.iter().collect::<Vec<_>>())
}

/// A page: the conditions, `lines` of text, a table, a plot with a curve for each run.
///
/// # Errors
/// A plot cannot be drawn.
pub(super) fn page(
    facts: &Facts,
    lines: &[String],
    rows: &Rows,
    runs: &[&PolicyRun],
) -> anyhow::Result<String> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Replay of {0}</title>\n\
         <style>{STYLE}</style>\n<h1>Replay of {0}</h1>\n<p>{1}</p>\n",
        escaped(&facts.trace),
        escaped(&facts.line())
    );
    lines.iter().try_for_each(|line| writeln!(page, "<p>{}</p>", escaped(line)))?;
    page.push_str(&drawn(rows));
    page.push_str(
        "<p>Times are seconds of requests that ended well: TTFT from arrival to first byte, E2E to the last. Hit: \
         prompt tokens that came from a replica's cache. Imbalance: most minus fewest open requests of a pool's \
         replicas, mean over the time of arrivals.</p>\n",
    );
    for plot in curves::all(runs) {
        write!(page, "<h2>{}</h2>\n{}\n", escaped(plot.title), plot::svg(&plot)?)?;
    }
    page.push_str("</html>\n");
    Ok(page)
}

fn drawn(Rows { names, rows, colors }: &Rows) -> String {
    let mut out = String::from("<table>\n");
    for (place, row) in rows.iter().enumerate() {
        let color = place.checked_sub(1).and_then(|place| colors.get(place).copied().flatten());
        let tag = if place == 0 { "th" } else { "td" };
        let cell = |(column, cell): (usize, &String)| {
            // The colour stands beside the last name.
            let mark = color.filter(|_| column + 1 == *names).map_or_else(String::new, |color| {
                format!("<i style=\"background:{}\"></i>", plot::css_color(color))
            });
            let class = if column < *names { " class=\"n\"" } else { "" };
            format!("<{tag}{class}>{mark}{}</{tag}>", escaped(cell))
        };
        out.push_str("<tr>");
        out.extend(row.iter().enumerate().map(cell));
        out.push_str("</tr>\n");
    }
    out + "</table>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
