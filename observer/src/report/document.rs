//! A document for people: headings, tables, facts and notes; text, Markdown and HTML are three ways to write it.
//! Nothing in it is escaped yet.

/// In the order in which it is read.
#[derive(Clone, Debug, Default)]
pub struct Document {
    pub title: String,
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug)]
pub enum Part {
    Heading(String),
    Table(Table),
    /// What, and what it is.
    Facts(Vec<(String, String)>),
    /// What must not be overlooked.
    Warnings(Vec<String>),
    Notes(Vec<String>),
    /// An image as SVG, for those who can see one.
    Chart(String),
}

/// Of cells.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// The first so many columns are words, the others numbers.
    pub words: usize,
}

impl Document {
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            parts: Vec::new(),
        }
    }

    pub fn heading(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Heading(text.into()));
    }

    pub fn facts(&mut self, facts: Vec<(&str, String)>) {
        let facts = facts.into_iter();
        self.parts.push(Part::Facts(
            facts.map(|(what, is)| (what.to_owned(), is)).collect(),
        ));
    }

    /// None where there are none.
    pub fn warnings(&mut self, warnings: Vec<String>) {
        if !warnings.is_empty() {
            self.parts.push(Part::Warnings(warnings));
        }
    }

    pub fn notes(&mut self, notes: Vec<String>) {
        if !notes.is_empty() {
            self.parts.push(Part::Notes(notes));
        }
    }
}
