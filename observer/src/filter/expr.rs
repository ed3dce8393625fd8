//! The expression of a filter, and its canonical text.

use std::fmt;
use std::net::IpAddr;

use super::lex;

/// Made by [`Expr::all`], [`Expr::any`] and [`Expr::negate`], it is flat: neither `All` in `All` nor `Not` in `Not`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Not(Box<Expr>),
    Test(Test),
}

impl Expr {
    /// `None` for none.
    pub fn all(parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Self::All(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        Self::one_or(flat, Self::All)
    }

    /// `None` for none.
    pub fn any(parts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                Self::Any(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        Self::one_or(flat, Self::Any)
    }

    fn one_or(mut parts: Vec<Self>, many: impl FnOnce(Vec<Self>) -> Self) -> Option<Self> {
        match parts.len() {
            0 | 1 => parts.pop(),
            _ => Some(many(parts)),
        }
    }

    #[must_use]
    pub fn negate(self) -> Self {
        match self {
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }
}

/// One test of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    pub subject: Subject,
    /// Ports and retransmissions have an order; everything else knows `=` and `!=` only.
    pub op: Op,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Op {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Eq => "=",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }

    pub fn is_ordering(self) -> bool {
        !matches!(self, Self::Eq | Self::Ne)
    }
}

/// What is compared, and with what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `src`, `dst`.
    Host(Side, Host),
    /// `sport`, `dport`.
    Port(Side, u16),
    /// By name or by index.
    Dev(Named),
    /// By path below the cgroup v2 mount, or by inode number.
    Cgroup(Named),
    Cc(Pattern),
    Pid(u32),
    Comm(Pattern),
    /// By inode number or by name.
    Netns(Named),
    Retrans(Amount),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Source: ours.
    Local,
    /// Destination: the other end's.
    Remote,
}

/// An address with its port; `None` = any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    pub net: Option<Net>,
    pub port: Option<u16>,
}

/// Addresses that agree in their first bits. Never v4-mapped: those are IPv4, as flows are shown (TRAPS 16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    addr: IpAddr,
    len: u8,
}

impl Net {
    /// `None` when the length is not one of the family.
    pub fn new(addr: IpAddr, len: u8) -> Option<Self> {
        let mapped = match addr {
            IpAddr::V6(v6) if len >= 96 => v6.to_ipv4_mapped(),
            _ => None,
        };
        match mapped {
            Some(v4) if len <= 128 => Some(Self::masked(IpAddr::V4(v4), len - 96)),
            _ if len <= width(addr) => Some(Self::masked(addr, len)),
            _ => None,
        }
    }

    fn masked(addr: IpAddr, len: u8) -> Self {
        Self {
            addr: mask(addr, len),
            len,
        }
    }

    pub fn addr(self) -> IpAddr {
        self.addr
    }

    pub fn prefix_len(self) -> u8 {
        self.len
    }

    pub fn contains(self, addr: IpAddr) -> bool {
        let addr = addr.to_canonical();
        addr.is_ipv4() == self.addr.is_ipv4() && mask(addr, self.len) == self.addr
    }
}

fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

fn mask(addr: IpAddr, len: u8) -> IpAddr {
    let host_bits = u32::from(width(addr) - len);
    match addr {
        IpAddr::V4(v4) => {
            IpAddr::V4((v4.to_bits() & u32::MAX.checked_shl(host_bits).unwrap_or(0)).into())
        }
        IpAddr::V6(v6) => {
            IpAddr::V6((v6.to_bits() & u128::MAX.checked_shl(host_bits).unwrap_or(0)).into())
        }
    }
}

/// A name, or the beginning of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub text: String,
    /// A `*` follows.
    pub prefix: bool,
}

impl Pattern {
    pub fn matches(&self, name: &str) -> bool {
        if self.prefix {
            name.starts_with(&self.text)
        } else {
            name == self.text
        }
    }
}

/// A name that may be a number as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pattern: Pattern,
    number: Option<u64>,
}

impl Named {
    pub fn new(pattern: Pattern) -> Self {
        let digits = !pattern.prefix && pattern.text.bytes().all(|b| b.is_ascii_digit());
        let number = pattern.text.parse().ok().filter(|_| digits);
        Self { pattern, number }
    }

    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    pub fn number(&self) -> Option<u64> {
        self.number
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Segments retransmitted since birth.
    Segments(u64),
    /// Bytes retransmitted ÷ bytes sent since birth, in millionths.
    Share(u32),
}

impl Amount {
    /// 1 in [`Amount::Share`].
    pub const WHOLE: u32 = 1_000_000;
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { " and " })?;
                    match part {
                        Self::Any(_) => write!(f, "( {part} )")?,
                        _ => write!(f, "{part}")?,
                    }
                }
                Ok(())
            }
            Self::Any(parts) => {
                for (i, part) in parts.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { " or " })?;
                    write!(f, "{part}")?;
                }
                Ok(())
            }
            Self::Not(inner) => match **inner {
                Self::All(_) | Self::Any(_) => write!(f, "not ( {inner} )"),
                _ => write!(f, "not {inner}"),
            },
            Self::Test(test) => write!(f, "{test}"),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = self.op.as_str();
        match &self.subject {
            Subject::Host(side, host) => {
                let word = match side {
                    Side::Local => "src",
                    Side::Remote => "dst",
                };
                write!(f, "{word} {op} {host}")
            }
            Subject::Port(Side::Local, port) => write!(f, "sport {op} :{port}"),
            Subject::Port(Side::Remote, port) => write!(f, "dport {op} :{port}"),
            Subject::Dev(named) => write!(f, "dev {op} {}", named.pattern),
            Subject::Cgroup(named) => write!(f, "cgroup {op} {}", named.pattern),
            Subject::Cc(name) => write!(f, "cc {op} {name}"),
            Subject::Pid(pid) => write!(f, "pid {op} {pid}"),
            Subject::Comm(name) => write!(f, "comm {op} {name}"),
            Subject::Netns(named) => write!(f, "netns {op} {}", named.pattern),
            Subject::Retrans(Amount::Segments(0)) if self.op == Op::Gt => f.write_str("retrans"),
            Subject::Retrans(amount) => write!(f, "retrans {op} {amount}"),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Segments(segments) => write!(f, "{segments}"),
            Self::Share(millionths) => {
                let (whole, part) = (millionths / 10_000, millionths % 10_000);
                if part == 0 {
                    return write!(f, "{whole}%");
                }
                let part = format!("{part:04}");
                write!(f, "{whole}.{}%", part.trim_end_matches('0'))
            }
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Net { addr, len }) = self.net {
            match addr {
                IpAddr::V4(v4) => write!(f, "{v4}")?,
                IpAddr::V6(v6) => write!(f, "[{v6}]")?,
            }
            if len != width(addr) {
                write!(f, "/{len}")?;
            }
        }
        match (self.net, self.port) {
            (_, Some(port)) => write!(f, ":{port}"),
            (None, None) => f.write_str("*"),
            (Some(_), None) => Ok(()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.prefix { "*" } else { "" };
        let empty_prefix = self.prefix && self.text.is_empty();
        if empty_prefix || lex::is_plain_word(&self.text) {
            return write!(f, "{}{star}", self.text);
        }
        f.write_str("\"")?;
        for c in self.text.chars() {
            if matches!(c, '"' | '\\') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        write!(f, "\"{star}")
    }
}
