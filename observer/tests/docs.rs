//! The documents against the program: the screens they show, and the grammar of scripts.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use observer::source::script::{self, WORDS};

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the checkout").to_owned()
}

fn observer() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_observer"));
    command.current_dir(root());
    command
}

/// The documents that show screens.
const DOCUMENTS: [&str; 2] = ["README.md", "README.zh-CN.md"];

/// The text with each block after `<!-- observer … -->` made anew; how many there were.
fn with_screens(text: &str) -> (String, usize) {
    let (mut out, mut screens) = (String::new(), 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let command = line
            .strip_prefix("<!-- observer ")
            .and_then(|rest| rest.strip_suffix(" -->"));
        let Some(arguments) = command else { continue };
        let fence = lines.next().expect("a block follows");
        assert_eq!(fence, "```text", "a block follows {line}");
        lines
            .by_ref()
            .find(|line| *line == "```")
            .expect("the block ends");
        let shown = observer()
            .args(arguments.split_whitespace())
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&shown.stderr).into_owned();
        assert!(shown.status.success(), "{line}: {said}");
        let screen = String::from_utf8(shown.stdout).expect("text");
        out.push_str("```text\n");
        out.push_str(screen.trim_end_matches('\n'));
        out.push_str("\n```\n");
        screens += 1;
    }
    (out, screens)
}

#[test]
fn screens_in_documents_are_what_the_program_shows() {
    for document in DOCUMENTS {
        let path = root().join(document);
        let text = fs::read_to_string(&path).expect("readable");
        let (anew, screens) = with_screens(&text);
        assert!(screens > 0, "{document} shows no screen");
        if std::env::var_os("OBSERVER_WRITE_DOCS").is_some() {
            fs::write(&path, &anew).expect("writable");
            continue;
        }
        let same = anew == text;
        assert!(
            same,
            "{document}: OBSERVER_WRITE_DOCS=1 writes its screens anew"
        );
    }
}

fn page() -> String {
    fs::read_to_string(root().join("observer/docs/SCRIPTS.md")).expect("readable")
}

/// The blocks of a page fenced with `kind`.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let fence = format!("```{kind}\n");
    let blocks = page.split(&fence).skip(1);
    blocks
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

/// The words of the table with the keys in backquotes.
fn table(page: &str) -> Vec<(String, Vec<String>)> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let quoted = |cell: &str| -> Vec<String> {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        let keys = cells.get(2).map(|cell| quoted(cell)).unwrap_or_default();
        (quoted(cells[0]).concat(), keys)
    })
    .collect()
}

#[test]
fn the_examples_of_scripts_are_read() {
    let blocks = blocks(&page(), "script");
    assert!(blocks.len() >= 3);
    for block in blocks {
        let events = script::parse(&block).unwrap_or_else(|error| panic!("{error} of\n{block}"));
        assert!(events.len() > 2, "{block}");
    }
}

#[test]
fn wrong_lines_are_told_as_the_page_says() {
    let blocks = blocks(&page(), "wrong");
    assert!(blocks.len() >= 5);
    for block in blocks {
        let (text, told) = block.split_once("\n= ").expect("what is told");
        let error = script::parse(text).expect_err(text).to_string();
        assert_eq!(error, told.trim_end());
    }
}

#[test]
fn the_table_has_every_word_and_no_key_that_is_not_read() {
    let table = table(&page());
    let words: Vec<&str> = table.iter().map(|(word, _)| word.as_str()).collect();
    assert_eq!(words, WORDS);
    for (word, keys) in &table {
        for key in keys {
            // Of what the table says in words.
            if key.contains(|c: char| c.is_ascii_uppercase()) || matches!(key.as_str(), "attempted")
            {
                continue;
            }
            let error = script::parse(&format!("+0 {word} 7 {key}=?")).err();
            let unread = error.is_some_and(|error| error.problem.contains("has no key"));
            assert!(!unread, "{word} {key}");
        }
    }
    // What is not in the table is not read.
    for word in [
        "opened",
        "attributes",
        "sample",
        "retransmit",
        "state",
        "ca",
        "device",
        "counters",
    ] {
        let error = script::parse(&format!("+0 {word} 7 nonsense=1")).expect_err(word);
        assert!(error.problem.contains("has no key \"nonsense\""), "{error}");
    }
}

#[test]
fn scripts_are_drawn_listed_and_streamed() {
    let readme = "observer/docs/screens/readme.txt";
    let run = |arguments: &[&str], stdin: Option<&str>| {
        let mut command = observer();
        command
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.stdin(if stdin.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        let mut child = command.spawn().expect("it runs");
        if let Some(text) = stdin {
            let mut pipe = child.stdin.take().expect("piped");
            pipe.write_all(text.as_bytes()).expect("it reads");
        }
        let out = child.wait_with_output().expect("it ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let (code, screen, _) = run(
        &["--script", readme, "--screen", "80x24", "--keys", "3"],
        None,
    );
    assert_eq!(code, Some(0));
    assert_eq!(screen.lines().count(), 24);
    assert!(
        screen.contains("pacing: by fq") && !screen.contains('\u{1b}'),
        "{screen}"
    );
    // Before the flows came.
    let (_, early, _) = run(
        &["--script", readme, "--at", "0.5s", "--screen", "80x24"],
        None,
    );
    assert!(early.contains("flows 0"), "{early}");
    let (code, list, _) = run(
        &["list", "--script", readme, "--json", "dst", "10.0.0.2"],
        None,
    );
    assert_eq!((code, list.lines().count()), (Some(0), 1));
    assert!(list.contains("\"throughput_bps\":93800000"), "{list}");
    let (code, events, _) = run(
        &["stream", "--script", "-"],
        Some("@1s opened 7\n+1s tick\n+0 closed 7\n"),
    );
    assert_eq!(code, Some(0));
    assert_eq!(events.lines().count(), 2, "{events}");

    let (code, _, told) = run(
        &["stream", "--script", "-"],
        Some("@1s opened 7\nnonsense\n"),
    );
    assert_eq!(code, Some(2));
    assert!(
        told.contains("-: line 2: no event is called \"nonsense\""),
        "{told}"
    );
    let (code, _, told) = run(&["list", "--script", "no/such/file"], None);
    assert_eq!(code, Some(2));
    assert!(told.contains("no/such/file"), "{told}");
    for wrong in [
        &["list", "--script", readme, "--screen", "80x24"][..],
        &["--screen", "80x24"],
        &["--script", readme, "--screen", "80"],
        &[
            "--script",
            readme,
            "--screen",
            "80x24",
            "--keys",
            "<Nowhere>",
        ],
        &["--script", readme, "--screen", "80x24", "--keys", "€"],
        &["--script", readme, "--source", "diag", "--screen", "80x24"],
    ] {
        let (code, out, told) = run(wrong, None);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{wrong:?}");
        assert!(!told.is_empty());
    }
}
