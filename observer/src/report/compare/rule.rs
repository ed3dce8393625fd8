//! `--fail-if`: a condition on the groups, such as `throughput < -5%`.

use super::{Comparison, METRICS, Metric};

/// `KEY OP N[%]`: with `%` on the difference to the baseline, without on the median itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    metric: usize,
    op: Op,
    number: f64,
    /// Per cent of the baseline's median.
    relative: bool,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

/// Longer ones first: `<=` begins with `<`.
const OPS: [(&str, Op); 7] = [
    ("<=", Op::LessOrEqual),
    (">=", Op::GreaterOrEqual),
    ("==", Op::Equal),
    ("!=", Op::NotEqual),
    ("<", Op::Less),
    (">", Op::Greater),
    ("=", Op::Equal),
];

/// What a rule comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// True for these groups, in words.
    True(Vec<String>),
    False,
    /// What it asks is not known.
    Undecided(String),
}

impl Rule {
    /// The error says what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!("--fail-if '{text}': {why}; write KEY OP N[%], such as 'throughput < -5%'")
        };
        let at = text
            .find(['<', '>', '=', '!'])
            .ok_or_else(|| wrong("no operator"))?;
        let (key, rest) = text.split_at(at);
        let (sign, op) = OPS
            .into_iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(|| wrong("no operator"))?;
        let metric = Metric::place(key.trim()).ok_or_else(|| {
            let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
            wrong(&format!(
                "no figure '{}' (there are {})",
                key.trim(),
                names.join(", ")
            ))
        })?;
        let number = rest[sign.len()..].trim();
        let (digits, relative) = match number.strip_suffix('%') {
            Some(digits) => (digits.trim_end(), true),
            None => (number, false),
        };
        let number = digits
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| wrong(&format!("'{digits}' is no number")))?;
        Ok(Self {
            metric,
            op,
            number,
            relative,
            text: text.trim().to_owned(),
        })
    }

    /// Takes a baseline.
    pub fn is_relative(&self) -> bool {
        self.relative
    }

    pub fn judge(&self, comparison: &Comparison<'_>) -> Outcome {
        let metric = &METRICS[self.metric];
        let mut fulfilled = Vec::new();
        let mut judged = 0;
        for (at, group) in comparison.groups.iter().enumerate() {
            let name = comparison.name(at);
            if self.relative && group.baseline.is_none() {
                continue;
            }
            let value = if self.relative {
                let difference = comparison.difference(at, self.metric);
                difference
                    .and_then(|(_, share)| share)
                    .map(|share| share * 100.0)
            } else {
                group.stats[self.metric].map(|stat| stat.median)
            };
            let Some(value) = value else {
                return Outcome::Undecided(format!("{} of {name} is not known", metric.name));
            };
            judged += 1;
            if self.op.holds(value, self.number) {
                let is = if self.relative {
                    format!("{value:+.1}%")
                } else {
                    (metric.show)(value)
                };
                fulfilled.push(format!("{name}: {} is {is} ({})", metric.name, self.text));
            }
        }
        match (judged, fulfilled.is_empty()) {
            (0, _) => Outcome::Undecided("no group can be compared with the baseline".to_owned()),
            (_, true) => Outcome::False,
            (_, false) => Outcome::True(fulfilled),
        }
    }
}

impl Op {
    #[expect(clippy::float_cmp, reason = "what was asked for")]
    fn holds(self, value: f64, number: f64) -> bool {
        match self {
            Self::Less => value < number,
            Self::LessOrEqual => value <= number,
            Self::Greater => value > number,
            Self::GreaterOrEqual => value >= number,
            Self::Equal => value == number,
            Self::NotEqual => value != number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_or_refused_with_the_form() {
        let rule = Rule::parse(" throughput < -5% ").expect("right");
        assert_eq!((rule.metric, rule.op), (0, Op::Less));
        assert!(rule.relative && (rule.number + 5.0).abs() < 1e-9);
        let rule = Rule::parse("mean_rtt_us>=50000").expect("right");
        assert_eq!(METRICS[rule.metric].name, "mean_rtt");
        assert_eq!((rule.op, rule.relative), (Op::GreaterOrEqual, false));
        for wrong in [
            "",
            "throughput",
            "throughput <",
            "speed < 1",
            "throughput < x%",
            "throughput ! 1",
            "throughput < inf",
        ] {
            let told = Rule::parse(wrong).expect_err(wrong);
            assert!(told.contains("KEY OP N[%]"), "{told}");
        }
    }
}
