//! Sums by group, with a bound on their number.

use std::borrow::Cow;
use std::collections::HashMap;

use clap::ValueEnum;

use super::line::{Line, Text};
use super::sums::Sums;

/// The most groups that are kept apart. A group takes 1 to 20 KiB, most of it the quantiles, so 200 MiB are the
/// most and 30 MiB the usual for this many.
pub(crate) const MOST_GROUPS: usize = 10_000;

/// What lines are grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Name of the API key
    Key,
    /// The key's project
    Project,
    /// Public name of the route
    Route,
    /// Model as asked
    Model,
    /// Replica of the last attempt
    Replica,
    /// How the request ended
    Outcome,
    /// Day in UTC
    Day,
    /// Hour in UTC
    Hour,
}

impl By {
    /// The name in flags, headings and JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Project => "project",
            Self::Route => "route",
            Self::Model => "model",
            Self::Replica => "replica",
            Self::Outcome => "outcome",
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }

    fn of<'l>(self, line: &'l Line<'_>) -> Option<Cow<'l, str>> {
        let name = |text: &'l Option<Text<'_>>| text.as_ref().map(Text::as_name);
        match self {
            Self::Key => name(&line.key),
            Self::Project => name(&line.project),
            Self::Route => name(&line.route),
            Self::Model => name(&line.model),
            Self::Replica => name(&line.replica),
            Self::Outcome => Some(line.outcome.as_name()),
            Self::Day => line.time.get(..10).map(Cow::Borrowed),
            Self::Hour => line.time.get(..13).map(Cow::Borrowed),
        }
    }
}

/// One group: its names, one for each `By`, and its sums.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) names: Vec<Option<String>>,
    pub(crate) sums: Sums,
}

/// All groups. The first [`MOST_GROUPS`] that occur are kept apart, the lines of all others go into one.
#[derive(Debug)]
pub(crate) struct Groups {
    by: Vec<By>,
    most: usize,
    places: HashMap<Box<[u8]>, usize>,
    groups: Vec<Group>,
    other: Option<Sums>,
    key: Vec<u8>,
}

impl Groups {
    pub(crate) fn new(by: Vec<By>) -> Self {
        Self::bounded(by, MOST_GROUPS)
    }

    pub(super) fn bounded(by: Vec<By>, most: usize) -> Self {
        Self { by, most, places: HashMap::new(), groups: Vec::new(), other: None, key: Vec::new() }
    }

    pub(crate) fn add(&mut self, line: &Line<'_>) {
        self.key.clear();
        for by in &self.by {
            match by.of(line) {
                // 0xFF and 0xFE occur in no UTF-8 text, so no two lists of names make the same key.
                Some(name) => self.key.extend_from_slice(name.as_bytes()),
                None => self.key.push(0xFE),
            }
            self.key.push(0xFF);
        }
        if let Some(group) =
            self.places.get(self.key.as_slice()).and_then(|place| self.groups.get_mut(*place))
        {
            return group.sums.add(line);
        }
        if self.groups.len() >= self.most {
            return self.other.get_or_insert_default().add(line);
        }
        let names = self.by.iter().map(|by| by.of(line).map(Cow::into_owned)).collect();
        let mut group = Group { names, sums: Sums::default() };
        group.sums.add(line);
        self.places.insert(self.key.as_slice().into(), self.groups.len());
        self.groups.push(group);
    }

    /// The groups in the order of their names, those without a name first.
    pub(crate) fn finish(mut self) -> Grouped {
        self.groups.sort_by(|a, b| a.names.cmp(&b.names));
        let mut total = Sums::default();
        for sums in self.groups.iter().map(|group| &group.sums).chain(&self.other) {
            total.merge(sums);
        }
        Grouped { by: self.by, groups: self.groups, other: self.other, total }
    }
}

/// The sums when every line has been read.
#[derive(Debug)]
pub(crate) struct Grouped {
    pub(crate) by: Vec<By>,
    /// Without a `By`: one group without names, or none where no line was counted.
    pub(crate) groups: Vec<Group>,
    /// The lines of groups beyond the bound.
    pub(crate) other: Option<Sums>,
    pub(crate) total: Sums,
}
