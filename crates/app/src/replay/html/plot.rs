//! Curves as SVG.

use anyhow::{Context as _, anyhow};
use plotters::coord::Shift;
use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    ChartBuilder, Color as _, DrawingArea, IntoDrawingArea as _, IntoLogRange as _, LineSeries, Palette,
    Palette99, SVGBackend, WHITE,
};

use super::curves::Plot;

const SIZE: (u32, u32) = (960, 380);

/// The colour of the run at this place, for style sheets.
pub(super) fn css_color(index: usize) -> String {
    let (red, green, blue) = Palette99::pick(index).to_rgba().rgb();
    format!("rgb({red},{green},{blue})")
}

/// The plot as an SVG element.
///
/// # Errors
/// The drawing library fails.
pub(super) fn svg(plot: &Plot) -> anyhow::Result<String> {
    let points = || plot.curves.iter().flatten();
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let (left, right) = bounds(&mut points().map(|(x, _)| *x));
    let (_, top) = bounds(&mut points().map(|(_, y)| *y));
    if !(left.is_finite() && right.is_finite()) {
        return Ok("<p>Nothing to show.</p>".into());
    }
    let (right, top) = (right.max(left * 1.01 + 1e-3), if top > 0.0 { top * 1.02 } else { 1.0 });
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        if plot.log_x {
            draw(&area, plot, LogCoord::from((left..right).log_scale()), top)
        } else {
            draw(&area, plot, RangedCoordf64::from(0.0..right), top)
        }
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("cannot draw {:?}", plot.title))?;
    }
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw<X>(area: &Area<'_>, plot: &Plot, x: X, top: f64) -> Result<(), String>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let told = |error: &dyn std::fmt::Display| error.to_string();
    area.fill(&WHITE).map_err(|error| told(&error))?;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(x, 0.0..top)
        .map_err(|error| told(&error))?;
    chart
        .configure_mesh()
        .x_desc(plot.x)
        .y_desc(plot.y)
        .max_light_lines(0)
        .draw()
        .map_err(|error| told(&error))?;
    for (index, curve) in plot.curves.iter().enumerate() {
        let style = Palette99::pick(index).stroke_width(2);
        chart.draw_series(LineSeries::new(curve.iter().copied(), style)).map_err(|error| told(&error))?;
    }
    area.present().map_err(|error| told(&error))
}
