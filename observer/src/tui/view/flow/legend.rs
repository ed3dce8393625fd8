//! A chart's legend: how each line looks, what it is, and its value at the cursor, or now.

use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr as _;

use crate::model::series::{Extent, Quantity};
use crate::model::{Flow, Model};
use crate::tui::state::ViewState;
use crate::tui::widget::{Unit, sign};
use crate::units::{self, Limit, UNKNOWN, UNLIMITED};

/// Between two lines.
const BETWEEN: &str = "  ";
/// Counts above this are kept to three digits in the past.
const EXACT: u64 = 2048;

/// A line of a chart.
#[derive(Clone, Copy, Debug)]
pub struct Drawn {
    pub quantity: Quantity,
    pub name: &'static str,
}

/// What a chart shows.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub unit: Unit,
    /// It need not start at 0.
    pub tight: bool,
    /// The first is the one to be seen best.
    pub lines: &'static [Drawn],
}

const fn drawn(quantity: Quantity, name: &'static str) -> Drawn {
    Drawn { quantity, name }
}

pub const WINDOWS: Spec = Spec {
    unit: Unit::Bytes,
    tight: false,
    lines: &[
        drawn(Quantity::CwndBytes, "cwnd"),
        drawn(Quantity::InflightBytes, "inflight"),
        drawn(Quantity::BdpBytes, "BDP"),
    ],
};

pub const RATES: Spec = Spec {
    unit: Unit::Rate,
    tight: false,
    lines: &[
        drawn(Quantity::DeliveryRate, "delivery"),
        drawn(Quantity::PacingRate, "pacing"),
        drawn(Quantity::BtlBw, "BtlBw"),
        drawn(Quantity::AppLimitedRate, "app-limited"),
    ],
};

pub const TIMES: Spec = Spec {
    unit: Unit::Time,
    tight: true,
    lines: &[
        drawn(Quantity::Srtt, "srtt"),
        drawn(Quantity::Rtt, "rtt"),
        drawn(Quantity::MinRtt, "min RTT"),
    ],
};

/// One value with its unit.
fn value(quantity: Quantity, value: u64) -> String {
    match quantity {
        Quantity::Cwnd if value < EXACT => format!("{value} seg"),
        Quantity::Cwnd => format!("{}seg", units::size(value).trim_end_matches('B')),
        Quantity::CwndBytes | Quantity::InflightBytes | Quantity::BdpBytes => units::size(value),
        Quantity::PacingRate
        | Quantity::DeliveryRate
        | Quantity::AppLimitedRate
        | Quantity::BtlBw => units::rate(units::bits(value)),
        Quantity::Rtt | Quantity::Srtt | Quantity::MinRtt => format!("{} ms", units::ms(value)),
    }
}

fn known(quantity: Quantity, of: Option<Limit<u64>>) -> String {
    match of {
        None => UNKNOWN.to_owned(),
        Some(Limit::Unlimited) => UNLIMITED.to_owned(),
        Some(Limit::Finite(v)) => value(quantity, v),
    }
}

/// What the newest sample says.
fn now(model: &Model, flow: &Flow, quantity: Quantity) -> Option<Limit<u64>> {
    let sample = flow.sample()?;
    let finite = |v: u64| Some(Limit::Finite(v));
    let time = |us: Option<u32>| us.map(|us| Limit::Finite(u64::from(us)));
    match quantity {
        Quantity::Cwnd => sample.cwnd.map(|n| Limit::Finite(n.into())),
        Quantity::CwndBytes => sample.cwnd_bytes().map(Limit::Finite),
        Quantity::InflightBytes => finite(sample.inflight_bytes()),
        Quantity::BdpBytes => model.figures(flow).bdp_bytes.map(Limit::Finite),
        Quantity::PacingRate => sample.pacing_rate,
        Quantity::DeliveryRate if !sample.rate_app_limited => {
            sample.delivery_rate.map(Limit::Finite)
        }
        Quantity::AppLimitedRate if sample.rate_app_limited => {
            sample.delivery_rate.map(Limit::Finite)
        }
        Quantity::DeliveryRate | Quantity::AppLimitedRate => None,
        Quantity::BtlBw => model.btlbw(flow).map(|b| Limit::Finite(b.bytes_per_s)),
        Quantity::Rtt => time(sample.rtt_us),
        Quantity::Srtt => time(sample.srtt_us),
        Quantity::MinRtt => time(sample.min_rtt_us),
    }
}

/// `42.1 ms (40.2–97.3)`: the last, and from where to where it went in between.
fn extent(quantity: Quantity, extent: Option<Extent>) -> String {
    let Some(extent) = extent else {
        return UNKNOWN.to_owned();
    };
    let last = known(quantity, Some(extent.last));
    match extent.range {
        Some((low, high)) if value(quantity, low) != value(quantity, high) => {
            let (low, high) = (value(quantity, low), value(quantity, high));
            // The unit once, where both have the same.
            let number = |text: &str| text.split(' ').next().unwrap_or("").to_owned();
            let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
            let low = if unit(&low) == unit(&high) {
                number(&low)
            } else {
                low
            };
            format!("{last} ({low}…{high})")
        }
        _ => last,
    }
}

/// What stands in a legend beside a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// From where to where it went within the cursor's cell.
    Range,
    Last,
}

/// The legend in at most `width` columns: first ranges go, then lines without room for their value, the last first.
pub fn line(
    model: &Model,
    flow: &Flow,
    state: &ViewState,
    spec: &Spec,
    width: usize,
) -> Line<'static> {
    let parts = parts(model, flow, state, spec, Detail::Range);
    let needs = |parts: &[(Span, String)]| -> usize {
        let each = parts.iter().map(|(sign, text)| sign.width() + text.width());
        each.sum::<usize>() + BETWEEN.len() * parts.len().saturating_sub(1)
    };
    let mut parts = if needs(&parts) > width {
        self::parts(model, flow, state, spec, Detail::Last)
    } else {
        parts
    };
    while needs(&parts) > width {
        parts.pop();
    }
    let mut line = Line::default();
    for (n, (sign, text)) in parts.into_iter().enumerate() {
        line.push_span(Span::raw(if n > 0 { BETWEEN } else { "" }));
        line.push_span(sign);
        line.push_span(Span::raw(text));
    }
    line
}

/// Sign and text of each line.
fn parts(
    model: &Model,
    flow: &Flow,
    state: &ViewState,
    spec: &Spec,
    detail: Detail,
) -> Vec<(Span<'static>, String)> {
    let past = model.past(flow);
    let cursor = state.flow.cursor_cell();
    let of = |quantity, detail| match cursor {
        Some(cell) => {
            let column = past.columns(quantity, &cell).pop().flatten();
            match detail {
                Detail::Range => extent(quantity, column),
                Detail::Last => known(quantity, column.map(|c| c.last)),
            }
        }
        None => known(quantity, now(model, flow, quantity)),
    };
    let mut parts = Vec::new();
    for (n, drawn) in spec.lines.iter().enumerate() {
        let mut text = format!(" {} {}", drawn.name, of(drawn.quantity, detail));
        let segments = of(Quantity::Cwnd, Detail::Last);
        if drawn.quantity == Quantity::CwndBytes && segments != UNKNOWN {
            text += " ";
            text += &segments;
        }
        if drawn.quantity == Quantity::BtlBw
            && cursor.is_none()
            && model.btlbw(flow).is_some_and(|b| b.estimated)
        {
            text += " est";
        }
        // Told when there is something to tell.
        if drawn.quantity == Quantity::AppLimitedRate && text.ends_with(UNKNOWN) {
            continue;
        }
        let style = state.theme.series.get(n).copied().unwrap_or_default();
        parts.push((Span::styled(sign(state.theme.marker, n), style), text));
    }
    parts
}
