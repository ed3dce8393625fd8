//! Which flows: the words of `ss` and our own (SPEC §5), from text to a yes or no about one flow.
//!
//! A [`Filter`] is a set of states and an expression. A state word takes part in the set, not in the expression, as in
//! `ss`: `state established state close-wait ( dport = :443 or cc bbr )`. An expression is three-valued: a test of
//! what is not known of a flow is neither true nor false, `not` leaves it so, and only what is true is shown. So
//! neither `cc bbr` nor `not cc bbr` shows a flow whose algorithm is unknown.
//!
//! `not` binds closest, then `and` (also by mere juxtaposition), then `or`, as the manual of `ss` says. (`ss` itself, up
//! to 6.1 at least, gives `and` and `or` the same rank and reads from the left; parentheses mean the same to both.)

mod atom;
mod error;
mod eval;
mod expr;
mod lex;
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
pub use services::Services;
pub use states::States;

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

    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        self.states().contains(facts.state) && self.matches_in_any_state(facts)
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
