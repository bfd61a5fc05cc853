//! Line plots with labelled axes, a symbol per measured point, and a legend.

use unicode_width::UnicodeWidthStr;

use super::canvas::Canvas;
use super::{Style, fit};
use crate::chart::{Form, Guide, Level, Lines, Scale, Trace};

const SYMBOLS: [char; 8] = ['●', '▲', '■', '◆', '○', '△', '□', '◇'];
const ASCII_SYMBOLS: [char; 8] = ['o', 'x', '+', '*', '#', '@', '%', '&'];

/// A plot of `height` rows with its axes and the legend below.
pub(super) fn draw_lines(plot: &Lines<'_>, height: usize, style: &Style) -> String {
    let Lines { x, y, levels, guides, traces } = *plot;
    let ticks = y.ticks(height / 3);
    let gutter = ticks.iter().map(|tick| tick.label.width()).max().unwrap_or(0).min(16);
    let width = style.columns() - gutter - 2;
    let mut canvas = Canvas::new(width, height, style.unicode);
    for level in levels {
        canvas.horizontal_line(y.position(level.value));
    }
    draw_guides(&mut canvas, plot);
    draw_traces(&mut canvas, x, y, traces, style);
    let (bar, tee, corner) = if style.unicode { ("│", "┤", "└") } else { ("|", "+", "+") };
    let mut out = format!("{}\n", fit(&y.title(), style.columns()));
    for row in (0..height).rev() {
        let tick = ticks.iter().find(|tick| (y.position(tick.value) * (height - 1) as f64).round() as usize == row);
        let label = tick.map_or("", |tick| tick.label.as_str());
        let edge = if tick.is_some() { tee } else { bar };
        let line =
            format!("{}{} {edge}{}", " ".repeat(gutter.saturating_sub(label.width())), label, canvas.row(row, style));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    let (rule, labels) = x_axis(x, width, style);
    out.push_str(&format!("{} {corner}{rule}\n{}{labels}\n", " ".repeat(gutter), " ".repeat(gutter + 2)));
    let title = fit(&x.title(), style.columns());
    out.push_str(&format!("{}{title}\n", " ".repeat(style.columns().saturating_sub(title.width()))));
    out.push_str(&legend(levels, guides, traces, style));
    out
}

/// The symbol of a line. Lines of one hue differ by their symbols, so symbols follow the number of the line, without
/// references.
fn symbol_of(traces: &[Trace], place: usize, style: &Style) -> char {
    let count = traces[..place].iter().filter(|trace| !trace.reference).count();
    symbol((!traces[place].reference).then_some(count), style)
}

fn hue_of(trace: &Trace) -> Option<usize> {
    (!trace.reference).then_some(trace.hue)
}

fn symbol(count: Option<usize>, style: &Style) -> char {
    let symbols = if style.unicode { SYMBOLS } else { ASCII_SYMBOLS };
    count.map_or('.', |count| symbols[count % symbols.len()])
}

/// True where most points are doubtful: marking each one would only hide which line it is on.
fn mostly_doubtful(traces: &[Trace]) -> bool {
    let marks = || traces.iter().flat_map(|trace| &trace.marks);
    2 * marks().filter(|mark| mark.doubtful).count() > marks().count()
}

/// A point's position as shares of width and height.
fn position(x: &Scale, y: &Scale, point: (f64, f64)) -> (f64, f64) {
    (x.position(point.0), y.position(point.1))
}

/// Draws vertical and sloped guides as faint dots and fits as lines; plateaus appear only in the legend.
fn draw_guides(canvas: &mut Canvas, plot: &Lines<'_>) {
    let (x, y) = (plot.x, plot.y);
    for guide in plot.guides {
        match &guide.form {
            Form::Vertical(at) => canvas.vertical_line(x.position(*at)),
            Form::Slope(slope) => {
                let roof = plot.levels.iter().map(|level| level.value).reduce(f64::max).unwrap_or(y.hi());
                let (from, to) = (x.lo().max(y.lo() / slope), x.hi().min(roof / slope));
                if from < to {
                    canvas.line(position(x, y, (from, slope * from)), position(x, y, (to, slope * to)), None);
                }
            }
            Form::Fit { hue, path, .. } => {
                path.windows(2)
                    .for_each(|pair| canvas.line(position(x, y, pair[0]), position(x, y, pair[1]), Some(*hue)));
            }
            Form::Plateau { .. } => {}
        }
    }
}

fn draw_traces(canvas: &mut Canvas, x: &Scale, y: &Scale, traces: &[Trace], style: &Style) {
    let mark_doubt = !mostly_doubtful(traces);
    let mark_position = |mark: &crate::chart::Mark| position(x, y, (mark.x, mark.y));
    for (place, trace) in traces.iter().enumerate() {
        let (hue, symbol) = (hue_of(trace), symbol_of(traces, place, style));
        for pair in trace.places().windows(2) {
            canvas.line(position(x, y, pair[0]), position(x, y, pair[1]), hue);
        }
        for mark in trace.marks.iter().filter(|_| !trace.reference) {
            canvas.symbol(mark_position(mark), if mark.doubtful && mark_doubt { '!' } else { symbol }, hue);
        }
    }
}

/// The x axis with its ticks, and the labels that don't overlap.
fn x_axis(x: &Scale, width: usize, style: &Style) -> (String, String) {
    let (dash, tee) = if style.unicode { ('─', '┬') } else { ('-', '+') };
    let mut rule = vec![dash; width];
    let mut labels = String::new();
    for tick in x.ticks((width / 11).max(2)) {
        let column = (x.position(tick.value) * (width - 1) as f64).round() as usize;
        rule[column] = tee;
        let length = tick.label.width();
        let start = column.saturating_sub(length / 2).min(width.saturating_sub(length));
        let used = labels.width();
        if start > used || (used == 0 && length <= width) {
            labels.push_str(&" ".repeat(start - used));
            labels.push_str(&tick.label);
        }
    }
    (rule.into_iter().collect(), labels)
}

fn legend(levels: &[Level], guides: &[Guide], traces: &[Trace], style: &Style) -> String {
    let mut out = String::new();
    for (place, trace) in traces.iter().enumerate().filter(|(_, trace)| !trace.label.is_empty()) {
        let symbol = symbol_of(traces, place, style).to_string();
        let symbol = hue_of(trace).map_or_else(|| style.faint(&symbol), |hue| style.hue(&symbol, hue));
        out.push_str(&format!("  {symbol} {}\n", fit(&trace.label, style.columns() - 4)));
    }
    for level in levels {
        let line = style.faint(if style.unicode { "┄" } else { "." });
        out.push_str(&format!("  {line} {}\n", fit(&level.label, style.columns() - 4)));
    }
    for guide in guides {
        let sign = match (&guide.form, style.unicode) {
            (Form::Vertical(_), true) => "┊",
            (Form::Slope(_), true) => "/",
            (Form::Fit { .. } | Form::Plateau { .. }, true) => "─",
            (_, false) => ".",
        };
        out.push_str(&format!("  {} {}\n", style.faint(sign), fit(&guide.label, style.columns() - 4)));
    }
    if mostly_doubtful(traces) {
        out.push_str("  most points carry a flag that throws doubt on them\n");
    } else if traces.iter().flat_map(|trace| &trace.marks).any(|mark| mark.doubtful) {
        out.push_str("  ! carries a flag that throws doubt on it\n");
    }
    out
}
