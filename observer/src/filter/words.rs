//! The words a filter may have, and what was probably meant by one that it may not.

use super::error::{Problem, shown};
use super::states::States;

/// Words that begin a test or a state clause.
pub(super) const FIELDS: [&str; 13] = [
    "state", "exclude", "src", "dst", "sport", "dport", "dev", "cgroup", "cc", "pid", "comm",
    "netns", "retrans",
];

/// Of the command line: a filter that begins with something near to one is probably a slip of it.
const SUBCOMMANDS: [&str; 14] = [
    "live",
    "list",
    "stream",
    "record",
    "replay",
    "report",
    "compare",
    "export",
    "import",
    "lab",
    "doctor",
    "serve",
    "completions",
    "man",
];

/// Longer words are no slips of the pen.
const LONGEST: usize = 32;

/// Words of other tools, and what to say here.
const FOREIGN: [(&str, &str); 17] = [
    ("host", "say 'src ADDRESS or dst ADDRESS'"),
    (
        "net",
        "say 'src PREFIX or dst PREFIX', as in dst 10.0.0.0/8",
    ),
    ("port", "say 'sport = :PORT or dport = :PORT'"),
    ("tcp", "every flow here is TCP: leave it out"),
    ("ip", "the flag -4 keeps IPv4 only"),
    ("ip4", "the flag -4 keeps IPv4 only"),
    ("ip6", "the flag -6 keeps IPv6 only"),
    ("fwmark", "ss knows marks, observer does not record them"),
    ("autobound", "ss knows it, observer cannot tell it"),
    ("local", "say 'src' for this end"),
    ("remote", "say 'dst' for the other end"),
    ("peer", "say 'dst' for the other end"),
    ("bbr", "say 'cc bbr'"),
    ("cubic", "say 'cc cubic'"),
    ("reno", "say 'cc reno'"),
    ("dctcp", "say 'cc dctcp'"),
    ("user", "say 'comm NAME' or 'pid NUMBER'"),
];

/// Insertions, deletions, substitutions and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// The nearest of `known` and how far it is, when that is near enough to be meant.
pub(super) fn nearest<'k>(
    word: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<(usize, &'k str)> {
    let chars = word.chars().count();
    if chars > LONGEST {
        return None;
    }
    let word = word.to_lowercase();
    known
        .into_iter()
        .filter(|k| k.len().abs_diff(chars) <= LONGEST)
        .map(|k| (distance(&word, k), k))
        .min()
        .filter(|(far, k)| *far <= (chars.min(k.len()) / 3).max(1) && *far < chars)
}

/// `did you mean 'established'?`
pub fn did_you_mean<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<String> {
    nearest(word, known).map(|(_, meant)| format!("did you mean '{meant}'?"))
}

/// A word that stands where a test should begin.
pub(super) fn unknown(word: &str, is_first: bool) -> Problem {
    let wrong = Problem::new(format!("'{}' is no word of a filter", shown(word)));
    if let Some((_, say)) = FOREIGN.iter().find(|(foreign, _)| *foreign == word) {
        return wrong.hint(*say);
    }
    if States::named(word).is_some() {
        return wrong.hint(format!("for a TCP state say 'state {}'", shown(word)));
    }
    if is_first && SUBCOMMANDS.contains(&word) {
        return Problem::new(format!("'{word}' is a subcommand, not a word of a filter"))
            .hint(format!("flags stand after it: observer {word} …"));
    }
    if word.parse::<u16>().is_ok() || word.starts_with(':') {
        let port = shown(word.trim_start_matches(':'));
        return wrong.hint(format!(
            "for a port say 'dport = :{port}' or 'sport = :{port}'"
        ));
    }
    if word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '[' | '*')) {
        let host = shown(word);
        return wrong.hint(format!("for an address say 'dst {host}' or 'src {host}'"));
    }
    let field = nearest(word, FIELDS);
    let command = nearest(word, SUBCOMMANDS).filter(|_| is_first);
    match (command, field) {
        (Some((far, command)), Some((field_far, field))) if far == field_far => neither(word).hint(
            format!("did you mean the subcommand '{command}' or the word '{field}'?"),
        ),
        (Some((far, command)), field) if field.is_none_or(|(other, _)| far < other) => {
            neither(word).hint(format!("did you mean the subcommand '{command}'?"))
        }
        (_, Some((_, field))) => wrong.hint(format!("did you mean '{field}'?")),
        _ => wrong.hint(format!("its words are {}", FIELDS.join(", "))),
    }
}

fn neither(word: &str) -> Problem {
    let word = shown(word);
    Problem::new(format!(
        "'{word}' is neither a subcommand nor a word of a filter"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_counted_as_people_make_them() {
        assert_eq!(distance("estblished", "established"), 1);
        assert_eq!(distance("dts", "dst"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(nearest("xyzzy", FIELDS), None);
        assert_eq!(nearest("x", FIELDS), None);
        assert_eq!(nearest("RETRNAS", FIELDS), Some((1, "retrans")));
    }
}
