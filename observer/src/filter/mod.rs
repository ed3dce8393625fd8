//! Which flows: the words of `ss` and our own (SPEC §5), from text to a yes or no about one flow.
//!
//! A [`Filter`] is a set of states and an expression. A state word takes part in the set, not in the expression, as in
//! `ss`: `state established state close-wait ( dport = :443 or cc bbr )`. An expression is three-valued: a test of
//! what is not known of a flow is neither true nor false, `not` leaves it so, and only what is true is shown. So
//! neither `cc bbr` nor `not cc bbr` shows a flow whose algorithm is unknown.
//!
//! The words mean what they mean to `ss` but for these:
//!
//! - `dev` is the device that the flow leaves by; to `ss` it is the one that the socket was bound to, and few are.
//! - A v4-mapped address is IPv4, in the flow as in the filter (TRAPS 16): `dst [::]/0` is every IPv6 flow, and
//!   `dst [::ffff:10.0.0.0]/104` is `dst 10.0.0.0/8`. To `ss` the first takes v4-mapped ones in, and the second
//!   leaves plain IPv4 out.
//! - A prefix of one family holds no address of the other: `not dst 0.0.0.0/0` is every IPv6 flow. `ss` looks at the first
//!   bits of whatever address there is, shows IPv6 flows neither with nor without the `not`, and has trouble with short
//!   prefixes of IPv4 in general.
//! - Listeners and what is in TIME-WAIT, SYN-RECV or only bound are no flows: a filter that asks for nothing else is
//!   wrong, and groups (`state all`, `connected`, `synchronized`, `bucket`, `big`) come without them.
//! - `cgroup` and `comm` take `*` at the end; `cgroup` knows cgroups that are gone, by their number.
//!
//! `not` binds closest, then `and` (also by mere juxtaposition), then `or`, as the manual of `ss` says. (`ss` itself, up
//! to 6.1 at least, gives `and` and `or` the same rank and reads from the left; parentheses mean the same to both.)

mod atom;
mod error;
mod eval;
mod expr;
mod kernel;
mod lex;
mod needs;
mod parse;
mod services;
mod states;
#[cfg(test)]
mod tests;
mod value;
mod words;

use std::fmt;

pub use error::FilterError;
pub use eval::Facts;
pub use expr::{Amount, Expr, Host, Named, Net, Op, Pattern, Side, Subject, Test};
pub use kernel::{Family, Numbers};
pub use needs::Needs;
pub use services::Services;
pub use states::States;
pub use words::did_you_mean;

/// What the user asked for. The default passes what `ss` shows without `-a`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// As named; `None` = no state word.
    states: Option<States>,
    /// What passes when no state is named.
    unnamed: States,
    expr: Option<Expr>,
}

impl Default for Filter {
    fn default() -> Self {
        Self::of(None, None)
    }
}

impl Filter {
    fn of(states: Option<States>, expr: Option<Expr>) -> Self {
        Self {
            states,
            unnamed: States::SHOWN,
            expr,
        }
    }

    /// Service names by this host's `/etc/services`, read when the first one is met.
    pub fn parse_str(text: &str) -> Result<Self, FilterError> {
        Self::parse_with(text, &Services::system)
    }

    /// Service names by a table of the caller's.
    pub fn parse_with(
        text: &str,
        services: &dyn Fn() -> &'static Services,
    ) -> Result<Self, FilterError> {
        let (states, expr) = parse::parse(text, services)?;
        Ok(Self::of(states, expr))
    }

    /// The set that passes when the filter names no state: of a recording's finished flows nothing would be left by
    /// the rule of `ss`.
    #[must_use]
    pub fn unless_named(mut self, states: States) -> Self {
        self.unnamed = states;
        self
    }

    /// What passes both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let states = match (self.states, other.states) {
            (Some(one), Some(two)) => Some(one.and(two)),
            (one, two) => one.or(two),
        };
        let expr = Expr::all(self.expr.into_iter().chain(other.expr));
        Self {
            states,
            unnamed: self.unnamed,
            expr,
        }
    }

    /// Nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.states.is_none() && self.expr.is_none()
    }

    /// The states that pass.
    pub fn states(&self) -> States {
        self.states.unwrap_or(self.unnamed)
    }

    /// The filter names states itself.
    pub fn names_states(&self) -> bool {
        self.states.is_some()
    }

    pub fn expr(&self) -> Option<&Expr> {
        self.expr.as_ref()
    }

    /// What it asks that costs a look elsewhere.
    pub fn needs(&self) -> Needs {
        self.expr.as_ref().map(Needs::of).unwrap_or_default()
    }

    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        self.decide(facts) == Some(true)
    }

    /// The same; `None` = it depends on what is not known of the flow.
    pub fn decide(&self, facts: &Facts<'_>) -> Option<bool> {
        if !self.states().contains(facts.state) {
            return Some(false);
        }
        match &self.expr {
            Some(expr) => expr.eval(facts),
            None => Some(true),
        }
    }

    /// The expression alone: for a flow that was chosen once and is now followed to its end.
    pub fn matches_in_any_state(&self, facts: &Facts<'_>) -> bool {
        self.expr
            .as_ref()
            .is_none_or(|expr| expr.eval(facts) == Some(true))
    }
}

/// The canonical form: parses to the same filter.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.states, &self.expr) {
            (Some(states), None) => write!(f, "{states}"),
            // In parentheses, as an `or` beside a state word may be read in two ways.
            (Some(states), Some(expr @ Expr::Any(_))) => write!(f, "{states} ( {expr} )"),
            (Some(states), Some(expr)) => write!(f, "{states} {expr}"),
            (None, Some(expr)) => write!(f, "{expr}"),
            (None, None) => Ok(()),
        }
    }
}

/// Of the words of a command line, joined by blanks as `ss` does.
pub fn parse(words: &[String]) -> Result<Filter, FilterError> {
    Filter::parse_str(&words.join(" "))
}
