//! Round-trip times as the kernel keeps them: the latest, the smoothed one, and the minimum of five minutes.

/// `tcp_min_rtt_wlen`.
const WINDOW_NS: u64 = 300_000_000_000;
/// `TCP_RTO_MIN`.
const RTO_MIN_US: u32 = 200_000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    pub latest_us: Option<u32>,
    srtt_8us: u32,
    mdev_4us: u32,
    /// Lowest, second and third, each later than the one before (`lib/win_minmax.c`).
    lowest: Option<[(u64, u32); 3]>,
}

impl Rtt {
    pub fn srtt_us(&self) -> Option<u32> {
        (self.srtt_8us > 0).then_some(self.srtt_8us >> 3)
    }

    pub fn rttvar_us(&self) -> Option<u32> {
        (self.srtt_8us > 0).then_some(self.mdev_4us >> 2)
    }

    pub fn min_us(&self) -> Option<u32> {
        self.lowest.map(|lowest| lowest[0].1)
    }

    /// About when a sender gives up waiting, ns.
    pub fn rto_ns(&self) -> u64 {
        let us = match self.srtt_us() {
            Some(srtt) => u64::from(srtt) + u64::from(self.mdev_4us.max(RTO_MIN_US)),
            None => 1_000_000,
        };
        us * 1000
    }

    /// RFC 6298.
    pub fn smooth(&mut self, us: u32) {
        let us = us.clamp(1, u32::MAX >> 4);
        if self.srtt_8us == 0 {
            self.srtt_8us = us << 3;
            self.mdev_4us = us << 1;
            return;
        }
        let error = i64::from(us) - i64::from(self.srtt_8us >> 3);
        let srtt = i64::from(self.srtt_8us) + error;
        self.srtt_8us = srtt.clamp(1, i64::from(u32::MAX)) as u32;
        let deviation = error.abs() - i64::from(self.mdev_4us >> 2);
        self.mdev_4us = (i64::from(self.mdev_4us) + deviation).clamp(0, i64::from(u32::MAX)) as u32;
    }

    pub fn lower(&mut self, now_ns: u64, us: u32) {
        let new = (now_ns, us.max(1));
        let Some(mut s) = self.lowest else {
            self.lowest = Some([new; 3]);
            return;
        };
        if new.1 <= s[0].1 || now_ns.saturating_sub(s[2].0) > WINDOW_NS {
            self.lowest = Some([new; 3]);
            return;
        }
        if new.1 <= s[1].1 {
            (s[1], s[2]) = (new, new);
        } else if new.1 <= s[2].1 {
            s[2] = new;
        }
        let age = now_ns.saturating_sub(s[0].0);
        if age > WINDOW_NS {
            s = [s[1], s[2], new];
            if now_ns.saturating_sub(s[0].0) > WINDOW_NS {
                s = [s[1], s[2], new];
            }
        } else if s[1].0 == s[0].0 && age > WINDOW_NS / 4 {
            (s[1], s[2]) = (new, new);
        } else if s[2].0 == s[1].0 && age > WINDOW_NS / 2 {
            s[2] = new;
        }
        self.lowest = Some(s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smoothing_is_the_kernels_and_the_minimum_ages() {
        let mut rtt = Rtt::default();
        assert_eq!((rtt.srtt_us(), rtt.min_us()), (None, None));
        for us in [40_000, 48_000, 40_000] {
            rtt.smooth(us);
        }
        // 40 ms, + 1/8 of 8 ms, − 1/8 of 1 ms.
        assert_eq!(rtt.srtt_us(), Some(40_875));
        let second = 1_000_000_000;
        rtt.lower(0, 10_000);
        rtt.lower(second, 20_000);
        assert_eq!(rtt.min_us(), Some(10_000));
        for n in 2..400 {
            rtt.lower(n * second, 20_000);
        }
        assert_eq!(rtt.min_us(), Some(20_000));
    }
}
