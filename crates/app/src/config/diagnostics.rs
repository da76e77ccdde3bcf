//! What is wrong with a configuration: every finding with its place, its line and how to mend it.

use std::fmt;
use std::ops::Range;

use super::source::{Source, Spot};
use super::values::Refusal;

/// Where a value came from, and so where to send the reader of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// Not given.
    Default,
    /// Bytes of the file.
    File(Range<usize>),
    /// The command line, as typed.
    Flag(String),
}

/// Everything that is wrong, in the order of the file. Displayed one finding after the other, ends with a count.
#[derive(Debug)]
pub struct Diagnostics {
    items: Vec<Diagnostic>,
}

/// One finding.
#[derive(Debug)]
pub(super) struct Diagnostic {
    place: Place,
    what: String,
    hint: Option<String>,
    related: Option<(Place, String)>,
}

#[derive(Debug, Clone)]
struct Place {
    name: String,
    spot: Option<Spot>,
}

/// Collects findings about one source.
pub(super) struct Problems<'s> {
    source: &'s Source,
    items: Vec<Diagnostic>,
}

impl<'s> Problems<'s> {
    pub(super) fn new(source: &'s Source) -> Self {
        Self { source, items: Vec::new() }
    }

    /// Adds a finding; the hint and a second place are added to what is returned.
    pub(super) fn add(&mut self, at: &Origin, what: impl Into<String>) -> &mut Diagnostic {
        let place = Place::of(self.source, at);
        self.items.push(Diagnostic { place, what: what.into(), hint: None, related: None });
        let last = self.items.len() - 1;
        &mut self.items[last]
    }

    /// Adds a finding that two places share: `first` is the earlier one that `at` collides with.
    pub(super) fn conflict(
        &mut self,
        at: &Origin,
        what: impl Into<String>,
        first: &Origin,
        note: &str,
    ) -> &mut Diagnostic {
        let related = Place::of(self.source, first);
        let added = self.add(at, what);
        added.related = Some((related, note.into()));
        added
    }

    /// Adds that a known part is not supported by this version.
    pub(super) fn not_yet(&mut self, at: &Origin, what: impl fmt::Display) -> &mut Diagnostic {
        self.add(at, format!("{what} is not supported yet in this version")).hint("remove it")
    }

    /// Adds why a text was refused.
    pub(super) fn refused(&mut self, at: &Origin, refusal: Refusal) {
        match refusal {
            Refusal::Wrong(what, hint) => self.add(at, what).hint(hint),
            Refusal::NotYet(what) => self.not_yet(at, what),
        };
    }

    /// A finding as one line: place and text.
    pub(super) fn line(&self, at: &Origin, what: &str) -> String {
        format!("{}: {what}", self.place(at))
    }

    /// A place as a finding tells it.
    pub(super) fn place(&self, at: &Origin) -> String {
        Place::of(self.source, at).to_string()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Findings so far.
    pub(super) fn count(&self) -> usize {
        self.items.len()
    }

    /// `value` where nothing was found.
    pub(super) fn finish<T>(mut self, value: Option<T>) -> Result<T, Diagnostics> {
        self.items.sort_by_key(|d| d.place.spot.as_ref().map_or((0, 0), |s| (s.line, s.column)));
        match value {
            Some(value) if self.items.is_empty() => Ok(value),
            _ => Err(Diagnostics { items: self.items }),
        }
    }
}

impl Diagnostic {
    pub(super) fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        self.hint = Some(hint.into());
        self
    }
}

impl Place {
    fn of(source: &Source, at: &Origin) -> Self {
        match at {
            Origin::Default => Self { name: source.name().into(), spot: None },
            Origin::File(range) => Self { name: source.name().into(), spot: Some(source.spot(range)) },
            Origin::Flag(flag) => Self { name: flag.clone(), spot: None },
        }
    }

    fn excerpt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(spot) = &self.spot else { return Ok(()) };
        let number = spot.line.to_string();
        writeln!(f, "  {number} | {}", spot.excerpt)?;
        let (gutter, indent, width) = (number.len(), spot.column - 1, spot.width);
        writeln!(f, "  {:gutter$} | {:indent$}{:^<width$}", "", "", "")
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spot {
            Some(spot) => write!(f, "{}:{}:{}", self.name, spot.line, spot.column),
            None => f.write_str(&self.name),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.place, self.what)?;
        self.place.excerpt(f)?;
        if let Some((place, note)) = &self.related {
            writeln!(f, "  {place}: {note}")?;
            place.excerpt(f)?;
        }
        match &self.hint {
            Some(hint) => writeln!(f, "  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for item in &self.items {
            writeln!(f, "{item}")?;
        }
        match self.items.len() {
            1 => f.write_str("1 error"),
            n => write!(f, "{n} errors"),
        }
    }
}

impl std::error::Error for Diagnostics {}
