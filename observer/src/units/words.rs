//! Rates and sizes as `tc` writes them, read from what a user typed.

/// A number of digits with at most one point, and what follows it.
pub fn number(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// `100mbit`, `1.5gbit`: bits per second, decimal. Not 0, and no more than 10 Pbit/s.
pub fn rate(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = number(&lower)?;
    let factor = match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        "tbit" => 1e12,
        _ => return None,
    };
    let bps = (number * factor).round();
    (1.0..=1e16).contains(&bps).then_some(bps as u64)
}

/// `1500`, `15k`, `1m`: bytes, powers of 1024, as `tc` reads sizes. Not 0, and no more than 8 PB.
pub fn size(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = number(&lower)?;
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        _ => return None,
    };
    let bytes = (number * (1_u64 << shift) as f64).round();
    // Up to there every whole number is one of these.
    (1.0..=9e15).contains(&bytes).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_sizes_are_read_as_tc_reads_them() {
        assert_eq!(rate("100mbit"), Some(100_000_000));
        assert_eq!(rate("2.5Gbit"), Some(2_500_000_000));
        assert_eq!(rate("1bit"), Some(1));
        for wrong in [
            "",
            "100",
            "mbit",
            "-1mbit",
            "0bit",
            "1mb",
            "1e9gbit",
            "1..2mbit",
            "é",
            "99999tbit",
        ] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
        assert_eq!(size("64k"), Some(65536));
        assert_eq!(size("1.5K"), Some(1536));
        assert_eq!(size("1500"), Some(1500));
        assert_eq!(size("2tb"), Some(2 << 40));
        for wrong in ["", "k", "0", "1x", "-1k", "99999999999999999999t"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }
}
