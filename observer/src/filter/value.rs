//! The values that tests compare with: hosts, ports, shares.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use winnow::ascii::digit1;
use winnow::combinator::{alt, delimited, opt, preceded, terminated};
use winnow::prelude::*;
use winnow::token::{rest, take_till};

use super::error::{Problem, shown};
use super::expr::{Amount, Host, Net};
use super::services::Services;
use super::words;

/// Where service names come from; asked when the first one is met.
pub(super) type Lookup<'s> = &'s dyn Fn() -> &'static Services;

/// A host as written, taken apart.
struct Parts<'t> {
    addr: &'t str,
    len: Option<&'t str>,
    port: Option<&'t str>,
    /// In brackets: IPv6.
    bracketed: bool,
}

/// `ADDRESS[/LEN][:PORT]`, `[ADDRESS][/LEN][:PORT]`, `[ADDRESS/LEN][:PORT]`, `:PORT`, `*`.
pub(super) fn host(text: &str, services: Lookup<'_>) -> Result<Host, Problem> {
    let parts = parts(text)?;
    let port = match parts.port {
        None | Some("" | "*") => None,
        Some(port) => Some(port_number(port, services)?),
    };
    let net = match parts.addr {
        "" if parts.len.is_some() || parts.bracketed => return Err(no_address(text)),
        "" | "*" => None,
        _ => Some(net(text, &parts)?),
    };
    Ok(Host { net, port })
}

fn parts(text: &str) -> Result<Parts<'_>, Problem> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok(Parts {
            addr: text,
            len: None,
            port: None,
            bracketed: false,
        });
    }
    let port = || opt(preceded(':', rest));
    let length = || preceded('/', digit1);
    let inside = (take_till(0.., ['/', ']']), opt(length()));
    let bracketed = (delimited('[', inside, ']'), opt(length()), port()).verify_map(
        |((addr, inner), outer, port)| {
            let len = inner.xor(outer);
            let both = inner.is_some() && outer.is_some();
            (!both).then_some(Parts {
                addr,
                len,
                port,
                bracketed: true,
            })
        },
    );
    let prefix = (take_till(1.., '/'), length().map(Some), port());
    let plain = (take_till(0.., ':'), port()).map(|(addr, port)| (addr, None, port));
    let bare =
        alt((terminated(prefix, winnow::combinator::eof), plain)).map(|(addr, len, port)| Parts {
            addr,
            len,
            port,
            bracketed: false,
        });
    let result: winnow::Result<Parts<'_>> =
        alt((terminated(bracketed, winnow::combinator::eof), bare)).parse_next(&mut &*text);
    result.map_err(|_: winnow::error::ContextError| no_address(text))
}

fn no_address(text: &str) -> Problem {
    Problem::new(format!("'{}' is no address", shown(text)))
        .hint("write 10.0.0.1, 10.0.0.0/8, [2001:db8::]/32 or 10.0.0.1:443")
}

fn net(text: &str, parts: &Parts<'_>) -> Result<Net, Problem> {
    let addr = address(text, parts)?;
    let whole = if addr.is_ipv4() { 32 } else { 128 };
    let Some(written) = parts.len else {
        return Net::new(addr, whole).ok_or_else(|| no_address(text));
    };
    let len = written.parse().ok().and_then(|len| Net::new(addr, len));
    len.ok_or_else(|| {
        let family = if addr.is_ipv4() { "IPv4" } else { "IPv6" };
        Problem::new(format!("'/{}' is too long for {family}", shown(written)))
            .hint(format!("at most /{whole}"))
    })
}

fn address(text: &str, parts: &Parts<'_>) -> Result<IpAddr, Problem> {
    if let Ok(v6) = parts.addr.parse::<Ipv6Addr>() {
        return Ok(IpAddr::V6(v6));
    }
    if parts.bracketed {
        return Err(no_address(text));
    }
    if let Ok(v4) = parts.addr.parse::<Ipv4Addr>() {
        return Ok(IpAddr::V4(v4));
    }
    // 10/8, 193.233.7/24: what is left out is 0.
    let written = parts.addr.split('.').count();
    let filled = format!(
        "{}{}",
        parts.addr,
        ".0".repeat(4_usize.saturating_sub(written))
    );
    match (filled.parse(), parts.len) {
        (Ok(v4), Some(_)) => Ok(IpAddr::V4(v4)),
        (Ok(_), None) => {
            let wrong = Problem::new(format!("'{}' is not a whole address", shown(parts.addr)));
            Err(wrong.hint(format!("for a prefix say {filled}/{}", written * 8)))
        }
        (Err(_), _) if parts.addr.parse::<u16>().is_ok() => {
            Err(no_address(text).hint(format!("for a port say :{}", parts.addr)))
        }
        (Err(_), _) if parts.addr.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Err(no_address(text).hint("names of hosts are not looked up: give the address"))
        }
        (Err(_), _) => Err(no_address(text)),
    }
}

/// `:443`, `443`, `:https`, `https`, `*:443`; `None` = any.
pub(super) fn port(text: &str, services: Lookup<'_>) -> Result<Option<u16>, Problem> {
    let port = text
        .strip_prefix("*:")
        .or(text.strip_prefix(':'))
        .unwrap_or(text);
    match port {
        "*" => Ok(None),
        "" => Err(Problem::new("a port is missing").hint("write :443 or :https")),
        _ if port.contains([':', '.']) => {
            Err(Problem::new(format!("'{}' is no port", shown(port)))
                .hint("an address with a port goes after src or dst: dst 10.0.0.1:443"))
        }
        _ => port_number(port, services).map(Some),
    }
}

fn port_number(port: &str, services: Lookup<'_>) -> Result<u16, Problem> {
    if port.bytes().all(|b| b.is_ascii_digit()) {
        return port.parse().map_err(|_| {
            Problem::new(format!("'{}' is no port", shown(port))).hint("ports end at 65535")
        });
    }
    let services = services();
    services.port(port).ok_or_else(|| {
        Problem::new(format!(
            "'{}' is no TCP service in /etc/services",
            shown(port)
        ))
        .maybe(
            words::did_you_mean(port, services.names())
                .or_else(|| Some("write the port's number: :443".to_owned())),
        )
    })
}

/// `10` segments, or a share: `1%`, `0.25%`.
pub(super) fn amount(text: &str) -> Result<Amount, Problem> {
    let wrong = || {
        Problem::new(format!(
            "'{}' is no number of segments and no share",
            shown(text)
        ))
        .hint("write retrans > 10 or retrans > 1%")
    };
    let Some(number) = text.strip_suffix('%') else {
        return Some(text)
            .filter(|t| t.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|t| t.parse().ok())
            .map(Amount::Segments)
            .ok_or_else(wrong);
    };
    let split: winnow::Result<(&str, Option<&str>)> = terminated(
        (digit1, opt(preceded('.', digit1))),
        winnow::combinator::eof,
    )
    .parse_next(&mut &*number);
    let (whole, part) = split.map_err(|_: winnow::error::ContextError| wrong())?;
    let part = part.unwrap_or("").trim_end_matches('0');
    if part.len() > 4 {
        return Err(
            Problem::new(format!("'{}' is finer than can be told", shown(text)))
                .hint("at most four digits after the point"),
        );
    }
    let millionths = format!("{whole}{part:0<4}").parse::<u32>().ok();
    millionths
        .filter(|m| *m <= Amount::WHOLE)
        .map(Amount::Share)
        .ok_or_else(|| {
            Problem::new(format!("'{}' is no share of what is sent", shown(text)))
                .hint("a share is at most 100%")
        })
}
