//! Whether losses come alone, as independent ones do, or in clusters (DETECTION §1 c).

/// What the sequence of lost and not lost, in the order of sending, says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clusters {
    /// Mean length of a run of losses × (1 − p): 1 for independent ones.
    pub burst_ratio: f64,
    /// How far that is from 1, in standard errors.
    pub z: f64,
    /// Variance ÷ mean × (1 − p) of the losses in blocks of max(10, 3 ÷ p) packets; `None`: under three blocks.
    pub dispersion: Option<f64>,
}

/// `None`: nothing was lost, or everything.
pub fn clusters(lost: &[bool]) -> Option<Clusters> {
    let losses = lost.iter().filter(|lost| **lost).count();
    if losses == 0 || losses == lost.len() {
        return None;
    }
    let p = losses as f64 / lost.len() as f64;
    let runs = usize::from(lost[0]) + lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let burst_ratio = losses as f64 / runs as f64 * (1.0 - p);
    let z = (burst_ratio - 1.0) / (p / runs as f64).sqrt();
    Some(Clusters {
        burst_ratio,
        z,
        dispersion: dispersion(lost, p),
    })
}

fn dispersion(lost: &[bool], p: f64) -> Option<f64> {
    let block = (3.0 / p).ceil().max(10.0) as usize;
    let counts: Vec<f64> = lost
        .chunks_exact(block)
        .map(|block| block.iter().filter(|lost| **lost).count() as f64)
        .collect();
    if counts.len() < 3 {
        return None;
    }
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    if mean <= 0.0 {
        return None;
    }
    let squares = counts.iter().map(|count| (count - mean).powi(2));
    let variance = squares.sum::<f64>() / (counts.len() - 1) as f64;
    Some(variance / (mean * (1.0 - p)))
}

impl Clusters {
    /// As independent losses are.
    pub fn independent(&self) -> bool {
        self.z < 3.5 && self.burst_ratio < 1.15 && self.dispersion.is_none_or(|d| d < 2.0)
    }

    pub fn clustered(&self) -> bool {
        (self.z >= 5.0 && self.burst_ratio >= 1.05) || self.dispersion.is_some_and(|d| d >= 2.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(count: usize, mut lost: impl FnMut(u64) -> bool) -> Vec<bool> {
        let mut seed = 1_u64;
        (0..count)
            .map(|_| {
                seed = seed
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                lost(seed >> 33)
            })
            .collect()
    }

    #[test]
    fn independent_losses_are_told_from_bursts() {
        for per_mille in [1, 5, 20, 50] {
            let found = clusters(&draw(100_000, |number| number % 1000 < per_mille)).unwrap();
            assert!(
                found.independent() && !found.clustered(),
                "{per_mille}: {found:?}"
            );
        }
        // Gilbert's model: bursts of four on average, 70 % lost within.
        let mut bad = false;
        let found = clusters(&draw(100_000, |number| {
            bad = if bad {
                number % 4 != 0
            } else {
                number % 400 == 0
            };
            bad && number / 1000 % 10 < 7
        }));
        let found = found.unwrap();
        assert!(found.clustered() && !found.independent(), "{found:?}");
    }

    #[test]
    fn nothing_to_tell() {
        assert_eq!(clusters(&[]), None);
        assert_eq!(clusters(&[false; 10]), None);
        assert_eq!(clusters(&[true; 10]), None);
        assert_eq!(
            clusters(&[true, false, false, false]).unwrap().dispersion,
            None
        );
    }
}
