//! The part of a filter that the kernel programs can decide (`observer_common::filter`): addresses, prefixes, ports,
//! namespace, cgroup and holders. Everything else is «maybe» there, so that a flow is left out only where the whole
//! is certainly false.

use std::net::IpAddr;

use observer_common::filter::{FilterProgram, MAX_PIDS, MAX_STEPS, Op as Code, Order, Step};

use super::{Expr, Filter, Host, Net, Op, Side, Subject, Test};

/// What only the system can tell: numbers of named things.
pub trait Numbers {
    /// Inode number of the cgroup v2 directory at this path below the mount.
    fn cgroup(&self, path: &str) -> Option<u64>;
    /// Inode number of the network namespace with this name of `ip netns`.
    fn netns(&self, name: &str) -> Option<u32>;
}

impl Filter {
    /// The program for the kernel, further narrowed to one family. A filter that is too long for it passes everything.
    pub fn kernel_part(&self, family: Option<Family>, numbers: &dyn Numbers) -> FilterProgram {
        let mut writer = Writer {
            program: FilterProgram::EVERYTHING,
            numbers,
            full: false,
            depth: 0,
        };
        if let Some(expr) = self.expr() {
            writer.expr(expr);
        }
        if let Some(family) = family {
            // v4-mapped addresses are IPv4, as flows are shown.
            writer.net(Side::Remote, MAPPED, 96);
            if family == Family::V6 {
                writer.step(Code::Not);
            }
            if self.expr().is_some() {
                writer.step(Code::And);
            }
        }
        if writer.full || !writer.decides() {
            return FilterProgram::EVERYTHING;
        }
        writer.program
    }
}

/// What `-4` and `-6` ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// `::ffff:0:0/96`.
const MAPPED: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];

/// Results that can wait to be combined.
const DEEPEST: u32 = 60;

struct Writer<'n> {
    program: FilterProgram,
    numbers: &'n dyn Numbers,
    full: bool,
    depth: u32,
}

impl Writer<'_> {
    /// Whether any step tells something.
    fn decides(&self) -> bool {
        self.program.steps[..self.program.len as usize]
            .iter()
            .any(|step| step.op > Code::Maybe as u8)
    }

    fn put(&mut self, step: Step) {
        // The last place stays free: a step looks at the one behind it.
        let at = self.program.len as usize;
        if at >= MAX_STEPS - 1 {
            self.full = true;
            return;
        }
        self.program.steps[at] = step;
        self.program.len += 1;
    }

    fn step(&mut self, code: Code) {
        self.put(Step {
            op: code as u8,
            ..Step::default()
        });
    }

    fn number(&mut self, code: Code, number: u32) {
        self.put(Step {
            op: code as u8,
            number,
            ..Step::default()
        });
    }

    fn expr(&mut self, expr: &Expr) {
        self.depth += 1;
        if self.full || self.depth > DEEPEST {
            self.full = true;
            return;
        }
        match expr {
            Expr::All(parts) => self.many(parts, Code::And),
            Expr::Any(parts) => self.many(parts, Code::Or),
            Expr::Not(inner) => {
                self.expr(inner);
                self.step(Code::Not);
            }
            Expr::Test(test) => self.test(test),
        }
        self.depth -= 1;
    }

    fn many(&mut self, parts: &[Expr], code: Code) {
        for (at, part) in parts.iter().enumerate() {
            self.expr(part);
            if at > 0 {
                self.step(code);
            }
        }
    }

    fn test(&mut self, test: &Test) {
        match &test.subject {
            Subject::Host(side, host) => self.host(*side, *host),
            Subject::Port(side, port) => {
                return self.port(*side, *port, test.op);
            }
            Subject::Cgroup(named) => {
                let by_path = || {
                    let pattern = named.pattern();
                    (!pattern.prefix).then(|| self.numbers.cgroup(&pattern.text))?
                };
                match named.number().or_else(by_path) {
                    Some(id) if id != 0 => self.put(Step {
                        op: Code::Cgroup as u8,
                        words: [id as u32, (id >> 32) as u32, 0, 0],
                        ..Step::default()
                    }),
                    // A directory that is not there yet may come.
                    _ => self.step(Code::Maybe),
                }
            }
            Subject::Netns(named) => {
                let pattern = named.pattern();
                let by_name = (!pattern.prefix).then(|| self.numbers.netns(&pattern.text));
                let number = named
                    .number()
                    .and_then(|number| u32::try_from(number).ok())
                    .or(by_name.flatten());
                match number {
                    Some(number) => self.number(Code::Netns, number),
                    None => self.step(Code::Maybe),
                }
            }
            Subject::Pid(pid) => self.pid(*pid),
            Subject::Dev(_) | Subject::Cc(_) | Subject::Comm(_) | Subject::Retrans(_) => {
                self.step(Code::Maybe);
            }
        }
        if test.op == Op::Ne {
            self.step(Code::Not);
        }
    }

    fn host(&mut self, side: Side, host: Host) {
        match (host.net, host.port) {
            (Some(net), port) => {
                self.prefix(side, net);
                if let Some(port) = port {
                    self.port(side, port, Op::Eq);
                    self.step(Code::And);
                }
            }
            (None, Some(port)) => self.port(side, port, Op::Eq),
            // Any: what user space makes of it.
            (None, None) => self.step(Code::Maybe),
        }
    }

    fn port(&mut self, side: Side, port: u16, op: Op) {
        let code = match side {
            Side::Local => Code::LocalPort,
            Side::Remote => Code::RemotePort,
        };
        let order = match op {
            Op::Eq | Op::Ne => Order::Eq,
            Op::Lt => Order::Lt,
            Op::Le => Order::Le,
            Op::Gt => Order::Gt,
            Op::Ge => Order::Ge,
        };
        self.put(Step {
            op: code as u8,
            order: order as u8,
            number: u32::from(port),
            ..Step::default()
        });
        if op == Op::Ne {
            self.step(Code::Not);
        }
    }

    fn prefix(&mut self, side: Side, net: Net) {
        match net.addr() {
            IpAddr::V4(v4) => self.net(
                side,
                v4.to_ipv6_mapped().octets(),
                96 + u32::from(net.prefix_len()),
            ),
            IpAddr::V6(v6) if net.prefix_len() < 96 => {
                // A short IPv6 prefix covers the v4-mapped block, whose flows are IPv4.
                self.net(side, v6.octets(), u32::from(net.prefix_len()));
                self.net(side, MAPPED, 96);
                self.step(Code::Not);
                self.step(Code::And);
            }
            IpAddr::V6(v6) => self.net(side, v6.octets(), u32::from(net.prefix_len())),
        }
    }

    fn net(&mut self, side: Side, address: [u8; 16], len: u32) {
        let code = match side {
            Side::Local => Code::LocalNet,
            Side::Remote => Code::RemoteNet,
        };
        let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0).to_be_bytes();
        self.put(Step {
            op: code as u8,
            words: words(address),
            ..Step::default()
        });
        self.put(Step {
            op: Code::Mask as u8,
            words: words(mask),
            ..Step::default()
        });
    }

    fn pid(&mut self, pid: u32) {
        let count = self.program.pids as usize;
        let known = self.program.pid[..count]
            .iter()
            .position(|known| *known == pid);
        let place = known.or_else(|| {
            let place = self.program.pid.get_mut(count)?;
            *place = pid;
            self.program.pids += 1;
            Some(count)
        });
        debug_assert!(count <= MAX_PIDS);
        match place.and_then(|place| u32::try_from(place).ok()) {
            Some(place) => self.number(Code::Pid, place),
            None => self.step(Code::Maybe),
        }
    }
}

/// As the kernel lays them out.
fn words(bytes: [u8; 16]) -> [u32; 4] {
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use observer_common::filter::{Known, may_pass};
    use std::net::{IpAddr, SocketAddr};

    struct Table;

    impl Numbers for Table {
        fn cgroup(&self, path: &str) -> Option<u64> {
            (path == "/known").then_some(0x1_0000_0007)
        }

        fn netns(&self, name: &str) -> Option<u32> {
            (name == "blue").then_some(77)
        }
    }

    fn known(local: &str, remote: &str) -> Known {
        let side = |text: &str| {
            let at: SocketAddr = text.parse().expect("an address");
            let v6 = match at.ip() {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            (words(v6.octets()), at.port())
        };
        let ((local, local_port), (remote, remote_port)) = (side(local), side(remote));
        Known {
            local,
            remote,
            local_port,
            remote_port,
            netns: 1,
            cgroup: 0x1_0000_0007,
            holders: 0,
            walked: true,
        }
    }

    fn passes(filter: &str, flow: &Known) -> bool {
        let filter = Filter::parse_str(filter).expect("a filter");
        may_pass(&filter.kernel_part(None, &Table), flow)
    }

    #[test]
    fn what_the_kernel_can_tell_it_tells() {
        let flow = known("10.0.0.1:50000", "10.1.2.3:443");
        for (filter, expected) in [
            ("", true),
            ("dport = :443", true),
            ("dport = :80", false),
            ("dport != :443", false),
            ("sport >= :50000 and sport < :50001", true),
            ("sport gt :50000", false),
            ("dst 10.0.0.0/8", true),
            ("dst 10.0.0.0/16", false),
            ("dst 10.1.2.3:443", true),
            ("dst 10.1.2.3:80", false),
            ("dst :443", true),
            ("not dst 10.0.0.0/8", false),
            ("src 0.0.0.0/0", true),
            ("src [::]/0", false),
            ("dst [2001:db8::]/32", false),
            ("netns 1", true),
            ("netns blue", false),
            ("netns unheard", true),
            ("cgroup /known", true),
            ("cgroup != /known", false),
            ("cgroup /not-there-yet", true),
            ("pid 5", false),
            ("not pid 5", true),
            // What it cannot tell, it leaves.
            ("cc bbr", true),
            ("not cc bbr", true),
            ("cc bbr and dport = :80", false),
            ("cc bbr or dport = :80", true),
            ("not ( cc bbr or dport = :443 )", false),
            ("( dport = :80 or dport = :443 ) and comm x", true),
        ] {
            assert_eq!(passes(filter, &flow), expected, "{filter}");
        }
    }

    #[test]
    fn a_socket_without_a_port_may_get_any() {
        let mut flow = known("0.0.0.0:0", "10.1.2.3:443");
        assert!(passes("sport = :9 and src 10.9.9.9", &flow));
        assert!(!passes("sport = :9 and dport = :80", &flow));
        flow.walked = false;
        assert!(passes("pid 5", &flow) && passes("not pid 5", &flow));
    }

    #[test]
    fn families_as_flows_are_shown() {
        let all = Filter::default();
        let (v4, v6) = (
            known("10.0.0.1:1", "10.0.0.2:2"),
            known("[2001:db8::1]:1", "[2001:db8::2]:2"),
        );
        for (family, flow, expected) in [
            (Family::V4, &v4, true),
            (Family::V4, &v6, false),
            (Family::V6, &v4, false),
            (Family::V6, &v6, true),
        ] {
            let program = all.kernel_part(Some(family), &Table);
            assert_eq!(may_pass(&program, flow), expected, "{family:?}");
        }
    }

    #[test]
    fn what_is_too_long_passes_everything() {
        let words = vec!["dport = :1"; MAX_STEPS].join(" or ");
        assert!(passes(&words, &known("10.0.0.1:1", "10.0.0.2:2")));
    }
}
