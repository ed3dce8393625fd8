//! One test of the grammar: a word, a comparison, a value.

use std::ops::Range;

use super::error::{Problem, shown};
use super::expr::{Amount, Expr, Host, Named, Op, Pattern, Side, Subject, Test};
use super::lex::{Kind, Word};
use super::parse::{Parsed, Parser};
use super::{value, words};

impl<'t> Parser<'t> {
    pub fn test(&mut self, word: &Word, is_first: bool) -> Parsed<Expr> {
        let span = self.here();
        if word.quoted {
            let problem = if word.unclosed {
                Problem::new("this quote is not closed")
            } else {
                Problem::new("quoted text stands only after a word such as comm")
            };
            return Err(self.error(span, problem));
        }
        self.next += 1;
        let field = word.text.as_str();
        let test = match field {
            "retrans" => self.retrans()?,
            "sport" | "dport" => self.port(field)?,
            "src" | "dst" | "dev" | "cgroup" | "cc" | "pid" | "comm" | "netns" => {
                let op = self.equality(field)?;
                let (value, at) = self.value(field)?;
                let subject = self
                    .subject(field, value)
                    .map_err(|problem| self.error(at, problem))?;
                Test { subject, op }
            }
            _ => return Err(self.error(span, words::unknown(field, is_first))),
        };
        Ok(Expr::Test(test))
    }

    fn operator(&mut self) -> Option<Op> {
        match self.peek_kind() {
            Some(Kind::Op(op)) => {
                self.next += 1;
                Some(*op)
            }
            _ => None,
        }
    }

    /// `=`, `!=` or none.
    fn equality(&mut self, field: &str) -> Parsed<Op> {
        let at = self.here();
        let op = self.operator().unwrap_or(Op::Eq);
        if !op.is_ordering() {
            return Ok(op);
        }
        let problem = Problem::new(format!("'{field}' has no order: only = and != go with it"));
        Err(self.error(
            at,
            match field {
                "src" => problem.hint("ports have: sport >= :1024"),
                "dst" => problem.hint("ports have: dport >= :1024"),
                _ => problem,
            },
        ))
    }

    fn value(&mut self, field: &str) -> Parsed<(&'t Word, Range<usize>)> {
        let at = self.here();
        let problem = match self.peek_kind() {
            Some(Kind::Word(word)) if word.unclosed => Problem::new("this quote is not closed"),
            Some(Kind::Word(word)) => {
                self.next += 1;
                return Ok((word, at));
            }
            _ => {
                let example = match field {
                    "src" | "dst" => "10.0.0.0/8",
                    "sport" | "dport" => "= :443",
                    "dev" => "eth0",
                    "cgroup" => "/user.slice",
                    "cc" => "bbr",
                    "pid" => "4711",
                    "comm" => "iperf3",
                    "netns" => "4026531840",
                    _ => "> 10",
                };
                Problem::new(format!("after '{field}' a value is missing"))
                    .hint(format!("such as '{field} {example}'"))
            }
        };
        Err(self.error(at, problem))
    }

    fn subject(&self, field: &str, word: &Word) -> Result<Subject, Problem> {
        Ok(match field {
            "src" => Subject::Host(Side::Local, value::host(&word.text, self.services)?),
            "dst" => Subject::Host(Side::Remote, value::host(&word.text, self.services)?),
            "dev" => Subject::Dev(Named::new(pattern(word)?)),
            "cgroup" => Subject::Cgroup(cgroup(pattern(word)?)),
            "cc" => Subject::Cc(pattern(word)?),
            "comm" => Subject::Comm(pattern(word)?),
            "netns" => Subject::Netns(Named::new(pattern(word)?)),
            _ => Subject::Pid(number(&word.text).ok_or_else(|| {
                Problem::new(format!("'{}' is no process number", shown(&word.text)))
                    .hint("for the name of a process say 'comm NAME'")
            })?),
        })
    }

    fn port(&mut self, field: &str) -> Parsed<Test> {
        let side = if field == "sport" {
            Side::Local
        } else {
            Side::Remote
        };
        let op = self.operator().unwrap_or(Op::Eq);
        let (word, at) = self.value(field)?;
        let port = value::port(&word.text, self.services);
        let port = port.map_err(|problem| self.error(at.clone(), problem))?;
        let subject = match port {
            Some(port) => Subject::Port(side, port),
            None if op.is_ordering() => {
                return Err(self.error(at, Problem::new("any port is neither more nor less")));
            }
            None => Subject::Host(
                side,
                Host {
                    net: None,
                    port: None,
                },
            ),
        };
        Ok(Test { subject, op })
    }

    /// Alone it asks for any.
    fn retrans(&mut self) -> Parsed<Test> {
        let Some(op) = self.operator() else {
            if let Some(Kind::Word(word)) = self.peek_kind()
                && value::amount(&word.text).is_ok()
            {
                let hint = format!("say 'retrans > {}'", shown(&word.text));
                let problem = Problem::new("more or less than this?").hint(hint);
                return Err(self.error(self.here(), problem));
            }
            let subject = Subject::Retrans(Amount::Segments(0));
            return Ok(Test {
                subject,
                op: Op::Gt,
            });
        };
        let (word, at) = self.value("retrans")?;
        let amount = value::amount(&word.text).map_err(|problem| self.error(at, problem))?;
        Ok(Test {
            subject: Subject::Retrans(amount),
            op,
        })
    }
}

fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

fn pattern(word: &Word) -> Result<Pattern, Problem> {
    if word.inner_star {
        return Err(Problem::new(format!(
            "in '{}' only the last * may stand for anything",
            shown(&word.text)
        ))
        .hint("a * that is meant itself is quoted: comm \"a*b\""));
    }
    let text = if word.star {
        word.text[..word.text.len() - 1].to_owned()
    } else {
        word.text.clone()
    };
    if text.is_empty() && !word.star {
        return Err(Problem::new("an empty name"));
    }
    Ok(Pattern {
        text,
        prefix: word.star,
    })
}

/// As [`crate::event::Attributes::cgroup`] has it: from the mount on, with the slash before and none behind.
fn cgroup(mut pattern: Pattern) -> Named {
    if Named::new(pattern.clone()).number().is_some() {
        return Named::new(pattern);
    }
    let mut below = pattern.text.trim_start_matches('/');
    // Where version 1 has the place, systemd mounts version 2 at `unified` below.
    for mount in ["sys/fs/cgroup", "unified"] {
        match below.strip_prefix(mount) {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                below = rest.trim_start_matches('/');
            }
            _ => break,
        }
    }
    if !pattern.prefix {
        below = below.trim_end_matches('/');
    }
    pattern.text = format!("/{below}");
    Named::new(pattern)
}
