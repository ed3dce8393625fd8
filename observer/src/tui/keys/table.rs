//! The table of keys, of htop, less and vim: dispatch, footer, help page and `docs/KEYS.md` all read it.

use crossterm::event::KeyCode;

use super::Key::{Char, Code, Ctrl};
use super::{Action, Binding, Context, Key};
use crate::model::{EntryKind, MarkKind};
use crate::tui::page::Page;
use crate::tui::transport::Direction;

use Context::{Anywhere, Chooser, Prompt, Time};
const FLOWS: Context = Context::On(Page::Flows);
const FLOW: Context = Context::On(Page::Flow);
const WHY: Context = Context::On(Page::Why);
const EVENTS: Context = Context::On(Page::Events);

/// All keys.
pub const BINDINGS: &[Binding] = &[
    row(Anywhere, Action::Quit, "quit")
        .on(&[Char('q'), Code(KeyCode::F(10)), Ctrl('c')], "quit")
        .footer("quit"),
    row(Anywhere, Action::Go(Page::Help), "help")
        .on(&[Char('?'), Char('h'), Code(KeyCode::F(1))], "this page")
        .footer("help"),
    row(Anywhere, Action::Back, "back").on(
        &[Code(KeyCode::Esc), Code(KeyCode::Backspace)],
        "back to where one was",
    ),
    row(Anywhere, Action::Go(Page::Flows), "flows")
        .on(&[Char('1')], "the flows")
        .footer("pages"),
    row(Anywhere, Action::Go(Page::Flow), "flow")
        .on(&[Char('2')], "the selected flow")
        .footer("pages"),
    row(Anywhere, Action::Go(Page::Qdiscs), "qdiscs")
        .on(&[Char('3')], "qdiscs of every device")
        .footer("pages"),
    row(Anywhere, Action::Go(Page::Host), "host")
        .on(&[Char('4')], "kernel and settings")
        .footer("pages"),
    row(Anywhere, Action::Go(Page::Events), "events")
        .on(&[Char('5')], "what happened lately")
        .footer("pages"),
    row(FLOWS, Action::Go(Page::Flow), "open")
        .on(&[Code(KeyCode::Enter)], "open the selected flow")
        .footer("open"),
    row(FLOWS, Action::Go(Page::Why), "why")
        .on(&[Char('w')], "why: verdict, advice")
        .footer("why"),
    row(FLOW, Action::Go(Page::Why), "why")
        .on(&[Char('w')], "why: verdict, advice")
        .footer("why"),
    row(WHY, Action::Go(Page::Why), "why").on(&[Char('w')], "back to where one was"),
    row(FLOW, Action::ZoomIn, "zoom-in")
        .on(&[Char('+'), Char('=')], "see less, finer")
        .footer("zoom"),
    row(FLOW, Action::ZoomOut, "zoom-out")
        .on(&[Char('-')], "see more")
        .footer("zoom"),
    row(FLOW, Action::Earlier, "earlier")
        .on(&[Code(KeyCode::Left)], "back in time")
        .footer("time"),
    row(FLOW, Action::Later, "later")
        .on(&[Code(KeyCode::Right)], "forth in time; End: now")
        .footer("time"),
    row(FLOW, Action::CursorLeft, "cursor-left")
        .on(&[Char('[')], "cursor left: values there")
        .footer("cursor"),
    row(FLOW, Action::CursorRight, "cursor-right")
        .on(&[Char(']')], "cursor right")
        .footer("cursor"),
    row(FLOW, Action::Enlarge, "enlarge")
        .on(&[Code(KeyCode::Tab)], "enlarge the next chart")
        .footer("enlarge"),
    row(EVENTS, Action::Open, "events-open")
        .on(&[Code(KeyCode::Enter)], "open the event's flow")
        .footer("open"),
    row(
        EVENTS,
        Action::ToggleKind(EntryKind::Burst),
        "events-bursts",
    )
    .on(&[Char('b')], "retransmit bursts"),
    row(
        EVENTS,
        Action::ToggleKind(EntryKind::Phase),
        "events-phases",
    )
    .on(&[Char('s')], "changes of phase"),
    row(
        EVENTS,
        Action::ToggleKind(EntryKind::Verdict),
        "events-verdicts",
    )
    .on(&[Char('w')], "verdicts: found, over"),
    row(EVENTS, Action::ToggleKind(EntryKind::Flow), "events-flows")
        .on(&[Char('o')], "opened and closed"),
    row(
        EVENTS,
        Action::ToggleKind(EntryKind::Qdisc),
        "events-qdiscs",
    )
    .on(&[Char('d')], "qdiscs: drops, changes"),
    row(EVENTS, Action::ToggleKind(EntryKind::Lost), "events-lost").on(&[Char('x')], "events lost"),
    row(EVENTS, Action::ToggleKind(EntryKind::Note), "events-notes").on(&[Char('n')], "notes"),
    row(
        EVENTS,
        Action::ToggleKind(EntryKind::Attempt),
        "events-attempts",
    )
    .on(&[Char('t')], "attempts not counted"),
    row(EVENTS, Action::AllKinds, "events-all")
        .on(&[Char('A')], "all of these")
        .footer("all"),
    row(FLOWS, Action::SortLeft, "sort-left")
        .on(&[Char('<'), Code(KeyCode::Left)], "sort by column left")
        .footer("sort"),
    row(FLOWS, Action::SortRight, "sort-right")
        .on(
            &[Char('>'), Code(KeyCode::Right), Code(KeyCode::F(6))],
            "sort by column right",
        )
        .footer("sort"),
    row(FLOWS, Action::Invert, "invert").on(&[Char('I')], "turn the order round"),
    row(FLOWS, Action::Search, "search")
        .on(&[Char('/'), Code(KeyCode::F(3))], "search the rows")
        .footer("search"),
    row(FLOWS, Action::NextMatch, "next-match").on(&[Char('n')], "next that matches"),
    row(FLOWS, Action::PreviousMatch, "previous-match").on(&[Char('N')], "the one before"),
    row(FLOWS, Action::Filter, "filter")
        .on(
            &[Char('f'), Char('\\'), Code(KeyCode::F(4))],
            "filter by the words of ss",
        )
        .footer("filter"),
    row(FLOWS, Action::Group, "group")
        .on(&[Char('g')], "group by the next thing")
        .footer("group"),
    row(FLOWS, Action::Fold, "fold").on(&[Char('-'), Char('+')], "fold this group"),
    row(FLOWS, Action::FoldAll, "fold-all").on(&[Char('*')], "fold all groups"),
    row(FLOWS, Action::Columns, "columns")
        .on(&[Char('c'), Code(KeyCode::F(2))], "choose columns")
        .footer("columns"),
    row(Time, Action::Pause, "pause")
        .on(&[Char(' ')], "pause, go on")
        .footer("pause"),
    row(Anywhere, Action::Record, "record").on(&[Char('R')], "record from here, end it"),
    row(Time, Action::StepBack, "step-back")
        .on(&[Char(',')], "step back: 0.1 s × speed")
        .footer("step"),
    row(Time, Action::StepForth, "step-forth")
        .on(&[Char('.')], "step forth; live: 1 s")
        .footer("step"),
    row(Time, Action::SkipBack, "skip-back")
        .on(&[Char('(')], "100 steps back")
        .footer("skip"),
    row(Time, Action::SkipForth, "skip-forth")
        .on(&[Char(')')], "100 forth; live: 10 s")
        .footer("skip"),
    row(Time, Action::Slower, "slower")
        .on(&[Char('{')], "slower: 0.1× at least")
        .footer("speed"),
    row(Time, Action::Faster, "faster")
        .on(&[Char('}')], "faster: 100× at most")
        .footer("speed"),
    row(Time, Action::GoTo, "go-to")
        .on(&[Char(':')], "go to 21:00:05, +90s, 50%")
        .footer("go to"),
    row(Time, Action::Beginning, "beginning").on(&[Char('^')], "to where it begins"),
    row(Time, Action::End, "end").on(&[Char('$')], "to its end; live: to now"),
    row(
        Time,
        Action::Jump(Direction::Forth, MarkKind::Burst),
        "next-burst",
    )
    .on(&[Char('e')], "next retransmit burst")
    .footer("burst"),
    row(
        Time,
        Action::Jump(Direction::Back, MarkKind::Burst),
        "previous-burst",
    )
    .on(&[Char('E')], "the one before")
    .footer("burst"),
    row(
        Time,
        Action::Jump(Direction::Forth, MarkKind::Phase),
        "next-phase",
    )
    .on(&[Char('p')], "next change of phase"),
    row(
        Time,
        Action::Jump(Direction::Back, MarkKind::Phase),
        "previous-phase",
    )
    .on(&[Char('P')], "the one before"),
    row(
        Time,
        Action::Jump(Direction::Forth, MarkKind::Verdict),
        "next-verdict",
    )
    .on(&[Char('v')], "next change of verdict"),
    row(
        Time,
        Action::Jump(Direction::Back, MarkKind::Verdict),
        "previous-verdict",
    )
    .on(&[Char('V')], "the one before"),
    row(
        Time,
        Action::Jump(Direction::Forth, MarkKind::Loss),
        "next-loss",
    )
    .on(&[Char('l')], "next loss of events"),
    row(
        Time,
        Action::Jump(Direction::Back, MarkKind::Loss),
        "previous-loss",
    )
    .on(&[Char('L')], "the one before"),
    row(Anywhere, Action::Up, "up")
        .on(&[Code(KeyCode::Up), Char('k')], "one line up")
        .footer("move"),
    row(Anywhere, Action::Down, "down")
        .on(&[Code(KeyCode::Down), Char('j')], "one line down")
        .footer("move"),
    row(Anywhere, Action::PageUp, "page-up").on(&[Code(KeyCode::PageUp), Ctrl('b')], "one page up"),
    row(Anywhere, Action::PageDown, "page-down")
        .on(&[Code(KeyCode::PageDown), Ctrl('f')], "one page down"),
    row(Anywhere, Action::HalfUp, "half-up").on(&[Ctrl('u')], "half a page up"),
    row(Anywhere, Action::HalfDown, "half-down").on(&[Ctrl('d')], "half a page down"),
    row(Anywhere, Action::First, "first").on(&[Code(KeyCode::Home)], "to the first"),
    row(Anywhere, Action::Last, "last").on(&[Code(KeyCode::End), Char('G')], "to the last"),
    row(Anywhere, Action::Mouse, "mouse").on(&[Char('m')], "mouse: ours, terminal's"),
    row(Anywhere, Action::Redraw, "redraw").on(&[Ctrl('l')], "draw anew"),
    row(Anywhere, Action::Suspend, "suspend").on(&[Ctrl('z')], "to the shell"),
    row(Chooser, Action::Toggle, "toggle")
        .on(
            &[Char(' '), Code(KeyCode::Enter), Char('x')],
            "show it, hide it",
        )
        .footer("show"),
    row(Chooser, Action::ShiftUp, "shift-up")
        .on(&[Char('K'), Char('<')], "further left")
        .footer("order"),
    row(Chooser, Action::ShiftDown, "shift-down")
        .on(&[Char('J'), Char('>')], "further right")
        .footer("order"),
    row(Chooser, Action::SortByThis, "sort-by-this")
        .on(&[Char('s')], "sort by it")
        .footer("sort"),
    row(Chooser, Action::Reset, "reset")
        .on(&[Char('r')], "as at first")
        .footer("reset"),
    row(Chooser, Action::Columns, "columns")
        .on(
            &[
                Code(KeyCode::Esc),
                Char('c'),
                Char('q'),
                Code(KeyCode::F(2)),
            ],
            "done",
        )
        .footer("done"),
    row(Chooser, Action::Up, "up").on(&[Code(KeyCode::Up), Char('k')], "one line up"),
    row(Chooser, Action::Down, "down").on(&[Code(KeyCode::Down), Char('j')], "one line down"),
    row(Chooser, Action::PageUp, "page-up").on(&[Code(KeyCode::PageUp)], "half the list up"),
    row(Chooser, Action::PageDown, "page-down")
        .on(&[Code(KeyCode::PageDown)], "half the list down"),
    row(Chooser, Action::First, "first").on(&[Code(KeyCode::Home)], "to the first"),
    row(Chooser, Action::Last, "last").on(&[Code(KeyCode::End)], "to the last"),
    row(Chooser, Action::Quit, "quit").on(&[Ctrl('c'), Code(KeyCode::F(10))], "quit"),
    row(Chooser, Action::Redraw, "redraw").on(&[Ctrl('l')], "draw anew"),
    row(Chooser, Action::Suspend, "suspend").on(&[Ctrl('z')], "to the shell"),
    row(Prompt, Action::Accept, "accept")
        .on(&[Code(KeyCode::Enter)], "keep it")
        .footer("keep"),
    row(Prompt, Action::Cancel, "cancel")
        .on(&[Code(KeyCode::Esc), Ctrl('c')], "as before")
        .footer("as before"),
    row(Prompt, Action::Erase, "erase")
        .on(&[Code(KeyCode::Backspace), Ctrl('h')], "erase one before"),
    row(Prompt, Action::EraseWord, "erase-word").on(&[Ctrl('w')], "erase the word before"),
    row(Prompt, Action::EraseAll, "erase-all")
        .on(&[Ctrl('u')], "erase all before")
        .footer("erase"),
    row(Prompt, Action::CursorLeft, "cursor-left")
        .on(&[Code(KeyCode::Left), Ctrl('b')], "one left"),
    row(Prompt, Action::CursorRight, "cursor-right")
        .on(&[Code(KeyCode::Right), Ctrl('f')], "one right"),
    row(Prompt, Action::CursorStart, "cursor-start")
        .on(&[Code(KeyCode::Home), Ctrl('a')], "to the beginning"),
    row(Prompt, Action::CursorEnd, "cursor-end").on(&[Code(KeyCode::End), Ctrl('e')], "to the end"),
    row(Prompt, Action::Redraw, "redraw").on(&[Ctrl('l')], "draw anew"),
    row(Prompt, Action::Suspend, "suspend").on(&[Ctrl('z')], "to the shell"),
];

const fn row(context: Context, action: Action, name: &'static str) -> Binding {
    Binding {
        context,
        action,
        name,
        keys: &[],
        help: "",
        footer: None,
    }
}

impl Binding {
    const fn on(self, keys: &'static [Key], help: &'static str) -> Self {
        Self { keys, help, ..self }
    }

    const fn footer(self, word: &'static str) -> Self {
        Self {
            footer: Some(word),
            ..self
        }
    }
}

/// The table as `docs/KEYS.md` has it.
#[cfg(test)]
pub(super) fn markdown() -> String {
    use std::fmt::Write as _;

    let mut text = String::from(
        "# Keys and columns\n\nMade from the table in `src/tui/keys/table.rs`; a test keeps it true. The config file gives an action other keys:\n\n\
         ```toml\n[keys]\npause = [\"Space\", \"F5\"]\n```\n",
    );
    for context in Context::sections() {
        let rows: Vec<&Binding> = BINDINGS.iter().filter(|r| r.context == context).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = write!(
            text,
            "\n## {}\n\n| keys | action | |\n| --- | --- | --- |\n",
            context.title()
        );
        for row in rows {
            let keys = row
                .keys
                .iter()
                .map(|key| format!("`{}`", key.text().replace('|', "\\|")));
            let keys = keys.collect::<Vec<_>>().join(" ");
            let _ = writeln!(text, "| {keys} | `{}` | {} |", row.name, row.help);
        }
    }
    text += "\n## Columns\n\n| in the config file | heading | |\n| --- | --- | --- |\n";
    for column in crate::tui::columns::Column::ALL {
        let (name, heading) = (column.name(), column.heading());
        let _ = writeln!(text, "| `{name}` | {heading} | {} |", column.meaning());
    }
    text
}
