//! Names a retransmission from the socket's state at the hook. Pure.

use observer_common::wire::RetransmitKind;

const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const CA_RECOVERY: u8 = 3;
const CA_LOSS: u8 = 4;
/// `ICSK_TIME_LOSS_PROBE` (`include/net/inet_connection_sock.h`).
const PENDING_LOSS_PROBE: u8 = 5;
/// `TCPHDR_SYN`.
const FLAG_SYN: u8 = 2;

/// The order matters: the kernel puts `ca_state` to Loss for a SYN too, and a fast retransmission often has a loss
/// probe pending. `tlp_high_seq` is set only after the transmission (TRAPS 43; exact against the kernel's counters on
/// 6.1, 6.18 and 7.3, TECHNIQUES §2).
#[inline(always)]
pub fn classify(state: u8, tcp_flags: u8, ca_state: u8, pending: u8) -> RetransmitKind {
    if state == SYN_SENT || state == SYN_RECV || tcp_flags & FLAG_SYN != 0 {
        RetransmitKind::Syn
    } else if ca_state == CA_LOSS {
        if pending == 0 {
            RetransmitKind::Rto
        } else {
            RetransmitKind::SlowStart
        }
    } else if ca_state == CA_RECOVERY {
        RetransmitKind::Fast
    } else if pending == PENDING_LOSS_PROBE {
        RetransmitKind::Tlp
    } else {
        RetransmitKind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trap_43_kinds_are_told_in_this_order() {
        assert_eq!(classify(SYN_SENT, 2, CA_LOSS, 0), RetransmitKind::Syn);
        assert_eq!(classify(SYN_RECV, 0x12, 0, 0), RetransmitKind::Syn);
        assert_eq!(classify(1, 0x10, CA_LOSS, 0), RetransmitKind::Rto);
        assert_eq!(classify(1, 0x10, CA_LOSS, 1), RetransmitKind::SlowStart);
        assert_eq!(classify(1, 0x10, CA_RECOVERY, 5), RetransmitKind::Fast);
        assert_eq!(classify(1, 0x10, 0, 5), RetransmitKind::Tlp);
        assert_eq!(classify(1, 0x10, 0, 1), RetransmitKind::Other);
    }
}
