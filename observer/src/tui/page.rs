//! The pages: what the screen shows, and how one gets from one to another.

/// A page. Each has a view in `view/`, a context of its own in the key table, and what it remembers in `state/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// All flows, a line each.
    Flows,
    /// One flow: its charts, what it is, what holds it back.
    Flow,
    /// The verdict on one flow's path: reasons, advice, who shares it.
    Why,
    /// What is attached to each device, and what it does.
    Qdiscs,
    /// Kernel, algorithms, settings, what became of the programs' runs.
    Host,
    /// What happened lately.
    Events,
    /// Keys, columns, marks, limitations.
    Help,
}

impl Page {
    pub const ALL: [Self; 7] = [
        Self::Flows,
        Self::Flow,
        Self::Why,
        Self::Qdiscs,
        Self::Host,
        Self::Events,
        Self::Help,
    ];

    /// As the help page and the footer name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Flow => "one flow",
            Self::Why => "reasons",
            Self::Qdiscs => "qdiscs",
            Self::Host => "host",
            Self::Events => "events",
            Self::Help => "help",
        }
    }

    /// Host, devices and losses stand above it.
    pub fn has_header(self) -> bool {
        self != Self::Help
    }

    /// Lines of the header at most: charts want the room.
    pub fn header_most(self) -> usize {
        if matches!(self, Self::Flow | Self::Why) {
            1
        } else {
            usize::MAX
        }
    }
}

/// Where one is, and the way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    now: Page,
    /// Each page at most once: going round in circles does not make the way back longer.
    before: Vec<Page>,
}

impl Default for Pages {
    fn default() -> Self {
        Self {
            now: Page::Flows,
            before: Vec::new(),
        }
    }
}

impl Pages {
    pub fn now(&self) -> Page {
        self.now
    }

    /// To `page`; the one left is the way back.
    pub fn go(&mut self, page: Page) {
        if page == self.now {
            return;
        }
        self.before.retain(|p| *p != page && *p != self.now);
        self.before.push(self.now);
        self.now = page;
    }

    /// To the page before. False where there is none.
    pub fn back(&mut self) -> bool {
        let Some(page) = self.before.pop() else {
            return false;
        };
        self.now = page;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_is_the_way_come() {
        let mut pages = Pages::default();
        assert!(!pages.back());
        for _ in 0..100 {
            pages.go(Page::Help);
            pages.go(Page::Flows);
        }
        pages.go(Page::Help);
        assert!(pages.before.len() < Page::ALL.len());
        assert!(pages.back());
        assert_eq!(pages.now(), Page::Flows);
        assert!(!pages.back(), "not to the page one came from twice");
    }
}
