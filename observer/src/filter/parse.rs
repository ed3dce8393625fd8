//! The grammar: state clauses, then an expression; one pass over the words, never back.

use std::ops::Range;

use super::error::{FilterError, Problem, shown};
use super::expr::Expr;
use super::lex::{Kind, Token, tokens};
use super::states::States;
use super::value::Lookup;
use super::words;

/// Parentheses within parentheses: deeper ones nobody wrote by hand, and the stack is finite.
pub(super) const MAX_DEPTH: usize = 100;

pub(super) type Parsed<T> = Result<T, FilterError>;

pub(super) fn parse(text: &str, services: Lookup<'_>) -> Parsed<(Option<States>, Option<Expr>)> {
    let tokens = tokens(text);
    let mut parser = Parser {
        text,
        tokens: &tokens,
        next: 0,
        depth: 0,
        services,
        states: None,
        named: None,
        joined: None,
    };
    parser.leading_clauses()?;
    let expr = if parser.peek().is_none() {
        None
    } else {
        parser.alternatives()?
    };
    if let Some(token) = parser.peek() {
        // Only a parenthesis ends an expression before the end.
        let span = token.span.clone();
        return Err(parser.error(span, Problem::new("this parenthesis closes nothing")));
    }
    if let (Some(states), Some(span)) = (parser.states, parser.named.clone())
        && states.is_without_flows()
    {
        let problem = Problem::new("no flow is ever in one of these states");
        return Err(parser.error(span, problem.hint(no_flow_hint())));
    }
    Ok((parser.states, expr))
}

fn no_flow_hint() -> String {
    format!("'ss' lists such sockets; flows are in {}", askable())
}

pub(super) struct Parser<'t> {
    text: &'t str,
    tokens: &'t [Token],
    pub next: usize,
    /// Open parentheses.
    depth: usize,
    pub services: Lookup<'t>,
    states: Option<States>,
    /// The last word of a state.
    named: Option<Range<usize>>,
    /// A state clause that is a part of the expression's outermost `and`: no `or` may stand beside it.
    joined: Option<Range<usize>>,
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.next)
    }

    pub fn peek_kind(&self) -> Option<&'t Kind> {
        self.peek().map(|token| &token.kind)
    }

    fn take_if(&mut self, kind: &Kind) -> bool {
        let is_it = self.peek_kind() == Some(kind);
        self.next += usize::from(is_it);
        is_it
    }

    /// Of the next token, or of the end.
    pub fn here(&self) -> Range<usize> {
        let end = self.text.trim_end().len();
        self.peek().map_or(end..end, |token| token.span.clone())
    }

    pub fn error(&self, span: Range<usize>, problem: Problem) -> FilterError {
        FilterError::new(self.text, span, problem)
    }

    /// `state` or `exclude`, when the next word is one.
    fn clause_word(&self) -> Option<&'t str> {
        match self.peek_kind()? {
            Kind::Word(word) if !word.quoted => {
                let text = word.text.as_str();
                matches!(text, "state" | "exclude" | "excl").then_some(text)
            }
            _ => None,
        }
    }

    /// As `ss` has them: `state` adds, `exclude` takes away, in their order.
    fn leading_clauses(&mut self) -> Parsed<()> {
        let start = self.here().start;
        while let Some(word) = self.clause_word() {
            self.clause(word)?;
        }
        if self.states.is_none() {
            return Ok(());
        }
        let clauses = start..self.tokens[self.next - 1].span.end;
        match self.peek_kind() {
            Some(Kind::Or) => Err(self.error(clauses, beside_or(self.second_state()))),
            Some(Kind::And) => {
                self.next += 1;
                self.joined = Some(clauses);
                self.needs_operand("and")
            }
            _ => Ok(()),
        }
    }

    /// An `or` follows, and then another state.
    fn second_state(&self) -> bool {
        matches!(self.tokens.get(self.next + 1).map(|t| &t.kind), Some(Kind::Word(w)) if w.text == "state")
    }

    fn needs_operand(&self, after: &str) -> Parsed<()> {
        match self.peek_kind() {
            Some(Kind::Open | Kind::Not | Kind::Word(_)) => Ok(()),
            _ => Err(self.error(
                self.here(),
                Problem::new(format!("after '{after}' a test is missing")),
            )),
        }
    }

    fn clause(&mut self, verb: &str) -> Parsed<()> {
        self.next += 1;
        let span = self.here();
        let Some(Kind::Word(word)) = self.peek_kind() else {
            let problem = Problem::new(format!("after '{verb}' a TCP state is missing"));
            return Err(self.error(span, problem.hint(format!("such as '{verb} established'"))));
        };
        let Some(states) = States::named(&word.text) else {
            let problem = Problem::new(format!("'{}' is no TCP state", shown(&word.text)));
            let meant = words::did_you_mean(&word.text, States::words())
                .or_else(|| Some(format!("states are {}", askable())));
            return Err(self.error(span, problem.maybe(meant)));
        };
        if verb == "state"
            && let Some(why) = States::why_no_flow(&word.text)
        {
            return Err(self.error(span, Problem::new(why).hint(no_flow_hint())));
        }
        self.next += 1;
        self.named = Some(span.clone());
        let set = if verb == "state" {
            self.states.unwrap_or(States::NONE).with(states)
        } else {
            self.states.unwrap_or(States::ALL).without(states)
        };
        if set.is_empty() {
            return Err(self.error(span, Problem::new("after this no state is left")));
        }
        self.states = Some(set);
        Ok(())
    }

    /// A state clause among the tests, outside of parentheses.
    fn late_clause(&mut self, verb: &str) -> Parsed<()> {
        let start = self.here().start;
        if verb == "state" && self.states.is_some() {
            let problem = Problem::new("states were named before");
            let hint = "several stand together, without 'and': state established state close-wait";
            return Err(self.error(self.here(), problem.hint(hint)));
        }
        self.clause(verb)?;
        let end = self.tokens[self.next - 1].span.end;
        self.joined.get_or_insert(start..end);
        Ok(())
    }

    /// `a or b or …`; `None` when there were state clauses only.
    fn alternatives(&mut self) -> Parsed<Option<Expr>> {
        let mut parts = vec![self.conjunction()?];
        while self.peek_kind() == Some(&Kind::Or) {
            if self.depth == 0
                && let Some(clause) = self.joined.clone()
            {
                return Err(self.error(clause, beside_or(self.second_state())));
            }
            self.next += 1;
            self.needs_operand("or")?;
            parts.push(self.conjunction()?);
        }
        if let Some(clause) = self
            .joined
            .clone()
            .filter(|_| parts.len() > 1 && self.depth == 0)
        {
            return Err(self.error(clause, beside_or(false)));
        }
        Ok(Expr::any(parts.into_iter().flatten()))
    }

    /// `a and b c …`
    fn conjunction(&mut self) -> Parsed<Option<Expr>> {
        let mut parts = Vec::new();
        let mut is_first = true;
        loop {
            if !is_first && self.take_if(&Kind::And) {
                self.needs_operand("and")?;
            }
            match self.peek_kind() {
                Some(Kind::Open | Kind::Not | Kind::Word(_)) => {}
                Some(Kind::Close | Kind::Or) | None if !is_first => break,
                _ => return Err(self.no_test_here()),
            }
            is_first = false;
            match self.clause_word() {
                Some(verb) if self.depth == 0 => self.late_clause(verb)?,
                _ => parts.push(self.term()?),
            }
        }
        Ok(Expr::all(parts))
    }

    fn no_test_here(&self) -> FilterError {
        let problem = match self.peek_kind() {
            Some(Kind::Op(_)) => {
                Problem::new("a comparison without what is compared").hint("such as dport = :443")
            }
            Some(Kind::Close) if self.depth > 0 => {
                Problem::new("nothing stands in these parentheses")
            }
            Some(Kind::Close) => Problem::new("this parenthesis closes nothing"),
            Some(Kind::And | Kind::Or) => Problem::new("a test is missing before this"),
            _ => Problem::new("a test is missing here"),
        };
        self.error(self.here(), problem)
    }

    fn term(&mut self) -> Parsed<Expr> {
        let mut negated = false;
        while self.take_if(&Kind::Not) {
            negated = !negated;
            self.needs_operand("not")?;
        }
        let expr = match self.peek_kind() {
            Some(Kind::Open) => self.group()?,
            Some(Kind::Word(word)) => {
                if self.clause_word().is_some() {
                    return Err(self.error(self.here(), inside_expression()));
                }
                let is_first = self.next == 0;
                self.test(word, is_first)?
            }
            _ => return Err(self.no_test_here()),
        };
        Ok(if negated { expr.negate() } else { expr })
    }

    fn group(&mut self) -> Parsed<Expr> {
        let open = self.here();
        if self.depth == MAX_DEPTH {
            let problem = Problem::new(format!("more than {MAX_DEPTH} parentheses within another"));
            return Err(self.error(open, problem));
        }
        self.next += 1;
        self.depth += 1;
        let expr = self.alternatives()?;
        self.depth -= 1;
        if !self.take_if(&Kind::Close) {
            // What else could stand here was taken or refused: it is the end.
            return Err(self.error(open, Problem::new("this parenthesis is not closed")));
        }
        expr.ok_or_else(|| self.no_test_here())
    }
}

fn askable() -> String {
    States::askable().collect::<Vec<_>>().join(", ")
}

fn inside_expression() -> Problem {
    Problem::new("a state stands neither in parentheses nor after 'not'")
        .hint("name states first: 'exclude listening ( dport = :443 or cc bbr )'")
}

fn beside_or(two_states: bool) -> Problem {
    let problem = Problem::new("a state beside 'or' may be read in two ways");
    if two_states {
        problem
            .hint("several states stand together, without 'or': state established state close-wait")
    } else {
        problem.hint("name states first, the rest in parentheses: 'state established ( dport = :443 or cc bbr )'")
    }
}
