//! The part of a filter that the kernel can decide: tests of addresses, ports, cgroup, namespace and holders, in
//! postfix order. What it cannot know is «maybe», and a flow is left out only where the whole is certainly false: user
//! space decides the rest.
#![expect(
    clippy::inline_always,
    clippy::needless_bitwise_bool,
    reason = "the programs have few registers, and every branch is a path for the verifier"
)]

/// Longest program; longer filters are left to user space.
pub const MAX_STEPS: usize = 48;
/// Most processes that a filter can name here.
pub const MAX_PIDS: usize = 32;

/// One step: pushes a test's result, or combines what was pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Step {
    /// [`Op`].
    pub op: u8,
    /// [`Order`], of ports.
    pub order: u8,
    pub reserved: u16,
    /// A port in host order, a namespace's inode number, a process's place in the list of those asked for.
    pub number: u32,
    /// A prefix, v4-mapped where it is IPv4, as four words in memory order; a cgroup's id in the first two.
    pub words: [u32; 4],
}

/// The read-only global `FILTER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct FilterProgram {
    /// Steps in use; 0 = everything passes.
    pub len: u32,
    /// Processes that the filter names.
    pub pids: u32,
    pub pid: [u32; MAX_PIDS],
    pub steps: [Step; MAX_STEPS],
}

impl FilterProgram {
    pub const EVERYTHING: Self = Self {
        len: 0,
        pids: 0,
        pid: [0; MAX_PIDS],
        steps: [Step {
            op: 0,
            order: 0,
            reserved: 0,
            number: 0,
            words: [0; 4],
        }; MAX_STEPS],
    };
}

/// [`Step::op`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    And = 1,
    Or = 2,
    Not = 3,
    /// Neither true nor false.
    Maybe = 4,
    LocalPort = 5,
    RemotePort = 6,
    /// Followed by a [`Op::Mask`] step with the prefix's bits.
    LocalNet = 7,
    RemoteNet = 8,
    /// Operand of the step before.
    Mask = 9,
    Cgroup = 10,
    Netns = 11,
    Pid = 12,
}

/// [`Step::order`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Order {
    Eq = 0,
    Lt = 1,
    Le = 2,
    Gt = 3,
    Ge = 4,
}

/// What is known of a flow, as the kernel side has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    pub local: [u32; 4],
    pub remote: [u32; 4],
    pub local_port: u16,
    pub remote_port: u16,
    pub netns: u32,
    /// 0 = unknown.
    pub cgroup: u64,
    /// Bit n: the n-th process asked for holds it.
    pub holders: u32,
    /// The walk over files has come by.
    pub walked: bool,
}

/// Three-valued results, the newest in the lowest bit: known to be true, known to be false.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    truth: u64,
    falsehood: u64,
}

impl Stack {
    #[inline(always)]
    pub fn push(&mut self, known: bool, value: bool) {
        self.truth = self.truth << 1 | u64::from(known & value);
        self.falsehood = self.falsehood << 1 | u64::from(known & !value);
    }

    #[inline(always)]
    pub fn and(&mut self) {
        let (a, b) = (self.truth, self.falsehood);
        self.truth = (a >> 1 & !1) | (a & a >> 1 & 1);
        self.falsehood = (b >> 1) | (b & 1);
    }

    #[inline(always)]
    pub fn or(&mut self) {
        let (a, b) = (self.truth, self.falsehood);
        self.truth = (a >> 1) | (a & 1);
        self.falsehood = (b >> 1 & !1) | (b & b >> 1 & 1);
    }

    #[inline(always)]
    pub fn not(&mut self) {
        let differ = (self.truth ^ self.falsehood) & 1;
        self.truth ^= differ;
        self.falsehood ^= differ;
    }

    /// The result is certainly false.
    #[inline(always)]
    pub fn is_false(self) -> bool {
        self.falsehood & 1 != 0
    }

    /// The result is certainly true.
    #[inline(always)]
    pub fn is_true(self) -> bool {
        self.truth & 1 != 0
    }
}

#[inline(always)]
fn ordered(order: u8, value: u16, with: u32) -> bool {
    let value = u32::from(value);
    match order {
        0 => value == with,
        1 => value < with,
        2 => value <= with,
        3 => value > with,
        _ => value >= with,
    }
}

#[inline(always)]
fn within(address: &[u32; 4], net: &[u32; 4], mask: &[u32; 4]) -> bool {
    ((address[0] ^ net[0]) & mask[0])
        | ((address[1] ^ net[1]) & mask[1])
        | ((address[2] ^ net[2]) & mask[2])
        | ((address[3] ^ net[3]) & mask[3])
        == 0
}

/// Takes one step. `next` is the step behind it, a mask where this one is a prefix.
#[inline(always)]
pub fn step(stack: &mut Stack, flow: &Known, step: &Step, next: &Step) {
    const AND: u8 = Op::And as u8;
    const OR: u8 = Op::Or as u8;
    const NOT: u8 = Op::Not as u8;
    const LOCAL_PORT: u8 = Op::LocalPort as u8;
    const REMOTE_PORT: u8 = Op::RemotePort as u8;
    const LOCAL_NET: u8 = Op::LocalNet as u8;
    const REMOTE_NET: u8 = Op::RemoteNet as u8;
    const MASK: u8 = Op::Mask as u8;
    const CGROUP: u8 = Op::Cgroup as u8;
    const NETNS: u8 = Op::Netns as u8;
    const PID: u8 = Op::Pid as u8;
    // A socket that is being connected has no port, and with it no address for certain.
    let bound = flow.local_port != 0;
    match step.op {
        AND => stack.and(),
        OR => stack.or(),
        NOT => stack.not(),
        LOCAL_PORT => stack.push(bound, ordered(step.order, flow.local_port, step.number)),
        REMOTE_PORT => stack.push(
            flow.remote_port != 0,
            ordered(step.order, flow.remote_port, step.number),
        ),
        LOCAL_NET => stack.push(bound, within(&flow.local, &step.words, &next.words)),
        REMOTE_NET => stack.push(
            flow.remote_port != 0,
            within(&flow.remote, &step.words, &next.words),
        ),
        MASK => {}
        CGROUP => stack.push(
            flow.cgroup != 0,
            flow.cgroup as u32 == step.words[0] && (flow.cgroup >> 32) as u32 == step.words[1],
        ),
        NETNS => stack.push(true, flow.netns == step.number),
        PID => stack.push(flow.walked, flow.holders >> (step.number & 31) & 1 != 0),
        _ => stack.push(false, false),
    }
}

/// Whether the flow may be one asked for: what the kernel side does, for user space to be tested against.
pub fn may_pass(program: &FilterProgram, flow: &Known) -> bool {
    let mut stack = Stack::default();
    let len = (program.len as usize).min(MAX_STEPS);
    for at in 0..len {
        let next = program.steps[(at + 1) % MAX_STEPS];
        step(&mut stack, flow, &program.steps[at], &next);
    }
    len == 0 || !stack.is_false()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_values_as_kleene_has_them() {
        let values = [(true, true), (true, false), (false, false)];
        let read = |stack: Stack| match (stack.is_true(), stack.is_false()) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
            (true, true) => unreachable!("both"),
        };
        let known = |(known, value): (bool, bool)| known.then_some(value);
        for a in values {
            for b in values {
                let mut stack = Stack::default();
                stack.push(true, true);
                stack.push(a.0, a.1);
                stack.push(b.0, b.1);
                let (mut and, mut or) = (stack, stack);
                and.and();
                or.or();
                let both = match (known(a), known(b)) {
                    (Some(true), Some(true)) => Some(true),
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    _ => None,
                };
                let either = match (known(a), known(b)) {
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    (Some(false), Some(false)) => Some(false),
                    _ => None,
                };
                assert_eq!((read(and), read(or)), (both, either), "{a:?} {b:?}");
                // What lies below is left alone.
                and.and();
                assert_eq!(read(and), both);
            }
            let mut stack = Stack::default();
            stack.push(a.0, a.1);
            stack.not();
            assert_eq!(read(stack), known(a).map(|value| !value));
        }
    }
}
