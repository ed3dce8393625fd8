//! Quantiles, ranks and spreads of small samples.

/// The value below which the share `q` lies, of a sorted sample; `None` of an empty one.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = (q * last as f64).clamp(0.0, last as f64);
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (at - at.floor()))
}

pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.retain(|value| value.is_finite());
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// Standard deviation ÷ mean; `None` under two values or of a mean that is not above 0.
pub fn variation(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    if mean <= 0.0 {
        return None;
    }
    let squares = values.iter().map(|value| (value - mean).powi(2));
    Some((squares.sum::<f64>() / (values.len() - 1) as f64).sqrt() / mean)
}

/// Share of a sorted sample that lies below `value`, ties by half.
pub fn rank(sorted: &[f64], value: f64) -> Option<f64> {
    if sorted.is_empty() {
        return None;
    }
    let below = sorted.partition_point(|other| *other < value);
    let up_to = sorted.partition_point(|other| *other <= value);
    Some((below + up_to) as f64 / 2.0 / sorted.len() as f64)
}

/// Spearman's rank correlation; `None` under three pairs, or where one side stands still.
pub fn spearman(pairs: &[(f64, f64)]) -> Option<f64> {
    if pairs.len() < 3 {
        return None;
    }
    let ranks = |values: Vec<f64>| -> Vec<f64> {
        let order = sorted(values.clone());
        values
            .iter()
            .filter_map(|value| rank(&order, *value))
            .collect()
    };
    let x = ranks(pairs.iter().map(|pair| pair.0).collect());
    let y = ranks(pairs.iter().map(|pair| pair.1).collect());
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mx, my) = (mean(&x), mean(&y));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (a, b) in x.iter().zip(&y) {
        xy += (a - mx) * (b - my);
        xx += (a - mx).powi(2);
        yy += (b - my).powi(2);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_known_samples() {
        let sample = sorted(vec![3.0, 1.0, f64::NAN, 2.0, 4.0]);
        assert_eq!(quantile(&sample, 0.5), Some(2.5));
        assert_eq!(quantile(&sample, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(rank(&sample, 2.0), Some(0.375));
        assert_eq!(variation(&[1.0]), None);
        assert_eq!(variation(&[2.0, 2.0]), Some(0.0));
        let pairs: Vec<_> = (0..10)
            .map(|at| (f64::from(at), f64::from(at * at)))
            .collect();
        assert_eq!(spearman(&pairs), Some(1.0));
        assert_eq!(spearman(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}
