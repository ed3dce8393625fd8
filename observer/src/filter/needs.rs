//! What a filter asks of a flow that costs a look elsewhere.

use super::expr::{Expr, Subject};

/// Facts that not every source tells by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Which processes hold the socket: `pid`, `comm`.
    pub owners: bool,
    /// The device that the flow leaves by.
    pub device: bool,
    /// The path of its cgroup.
    pub cgroup: bool,
    /// The names that `ip netns` has for its namespace.
    pub netns_names: bool,
}

impl Needs {
    pub(super) fn of(expr: &Expr) -> Self {
        let mut needs = Self::default();
        needs.take(expr);
        needs
    }

    fn take(&mut self, expr: &Expr) {
        match expr {
            Expr::All(parts) | Expr::Any(parts) => parts.iter().for_each(|part| self.take(part)),
            Expr::Not(inner) => self.take(inner),
            Expr::Test(test) => match &test.subject {
                Subject::Pid(_) | Subject::Comm(_) => self.owners = true,
                Subject::Dev(_) => self.device = true,
                Subject::Cgroup(_) => self.cgroup = true,
                Subject::Netns(_) => self.netns_names = true,
                Subject::Host(..) | Subject::Port(..) | Subject::Cc(_) | Subject::Retrans(_) => {}
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Filter;
    use super::*;

    fn needs(text: &str) -> Needs {
        Filter::parse_str(text).expect(text).needs()
    }

    #[test]
    fn only_what_is_named_is_needed() {
        assert_eq!(needs(""), Needs::default());
        assert_eq!(
            needs("state established dst 10.0.0.1 cc bbr"),
            Needs::default()
        );
        let owners = Needs {
            owners: true,
            ..Needs::default()
        };
        assert_eq!(
            needs("dport = :443 or not ( cc bbr and comm curl )"),
            owners
        );
        assert_eq!(needs("pid 1"), owners);
        let all = Needs {
            owners: true,
            device: true,
            cgroup: true,
            netns_names: true,
        };
        assert_eq!(needs("dev lo or cgroup /a or netns b or pid 1"), all);
    }
}
