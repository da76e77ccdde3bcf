//! The ratios as a picture: one group of bars for each kind of work, on a logarithmic scale, nginx at 1.

use std::fmt::Write;

use super::peers::GATEWAY;
use super::results::Results;
use super::table::{ROWS, Row, Scale};

const WIDTH: f64 = 900.0;
/// Left of the bars.
const NAMES: f64 = 160.0;
/// Right of the bars, for the figure.
const FIGURES: f64 = 70.0;
const BAR: f64 = 16.0;
const GAP: f64 = 34.0;
const TOP: f64 = 40.0;

/// An SVG file that reads on light and dark ground.
pub(super) fn svg(results: &Results) -> String {
    let names: Vec<&str> = results.versions.iter().map(|(name, _)| name.as_str()).collect();
    let rows: Vec<&Row> =
        ROWS.iter().filter(|row| row.scale == Scale::Ratio && results.has(row.workload)).collect();
    let all = rows.iter().flat_map(|row| names.iter().filter_map(|name| row.figure(results, name)));
    let (least, most) = all
        .fold((0.5_f64, 2.0_f64), |(least, most), figure| (least.min(figure.least), most.max(figure.most)));
    let place = |figure: f64| {
        let share = (figure / least).ln() / (most / least).ln();
        NAMES + share * (WIDTH - NAMES - FIGURES)
    };
    let height = TOP + rows.len() as f64 * (names.len() as f64 * BAR + GAP);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\" fill=\"#222222\">Ratios to nginx, less is better (logarithmic)</text>\n"
    );
    let mut y = TOP;
    for row in rows {
        let _always_fits =
            writeln!(text, "<text x=\"8\" y=\"{:.0}\" fill=\"#222222\">{}</text>", y + 12.0, row.label);
        y += 18.0;
        for name in &names {
            text += &bar(row, results, name, y, least, &place);
            y += BAR;
        }
        y += GAP - 18.0;
    }
    let one = place(1.0);
    let _always_fits = writeln!(
        text,
        "<line x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"{TOP}\" y2=\"{:.0}\" stroke=\"#222222\" stroke-dasharray=\"3 3\"/>",
        y - GAP + 18.0
    );
    text + "</svg>\n"
}

/// A bar with its name, its spread and its figure.
fn bar(row: &Row, results: &Results, name: &str, y: f64, least: f64, place: &dyn Fn(f64) -> f64) -> String {
    let middle = y + BAR / 2.0;
    let named = format!(
        "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#222222\">{name}</text>\n",
        NAMES - 8.0,
        y + 12.0
    );
    let Some(figure) = row.figure(results, name) else { return named };
    let (from, to) = (place(least), place(figure.median));
    let colour = if name == GATEWAY { "#0b6e99" } else { "#b8c4cc" };
    format!(
        "{named}<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\n\
         <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle:.1}\" y2=\"{middle:.1}\" stroke=\"#222222\"/>\n\
         <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#222222\">{:.2}</text>\n",
        y + 1.0,
        (to - from).max(1.0),
        BAR - 3.0,
        place(figure.least),
        place(figure.most),
        place(figure.most) + 6.0,
        y + 12.0,
        figure.median
    )
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::run;
    use super::svg;

    #[test]
    fn every_candidate_has_its_name_and_the_gateway_its_colour() {
        let text = svg(&run());
        for part in ["nginx</text>", "envoy</text>", "sluicegate</text>", "#0b6e99", ">0.75</text>"] {
            assert!(text.contains(part), "{part}");
        }
        assert_eq!(text.matches("<rect").count(), 3, "the ground and two bars: envoy failed");
    }
}
