//! Which model is drawn: the live one, or what it was when the view was paused.

use crate::model::Model;

/// The view's hold on the past. Scrolling back through what was recorded is to come from here too.
#[derive(Debug, Default)]
pub struct Look {
    frozen: Option<Box<Model>>,
}

impl Look {
    /// Freezes the view at what `live` is now, or lets it go.
    pub fn toggle(&mut self, live: &Model) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => Some(Box::new(live.clone())),
        };
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// What is drawn.
    pub fn at<'a>(&'a self, live: &'a Model) -> &'a Model {
        self.frozen.as_deref().unwrap_or(live)
    }
}
