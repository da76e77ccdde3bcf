//! The text of one configuration file: where a span of it lies, and how its lines may be shown.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::secret::is_reference;

/// A file's name and text. Literal secrets in it are masked in everything shown.
pub(super) struct Source {
    name: String,
    text: String,
    masked: Vec<Range<usize>>,
}

/// A spot as people count: line and column from 1, the column in characters.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    pub(super) line: usize,
    pub(super) column: usize,
    /// The whole line, secrets masked, one column per character.
    pub(super) excerpt: String,
    /// Characters to underline, at least 1, never past the line.
    pub(super) width: usize,
}

impl Source {
    pub(super) fn new(name: &str, text: &str) -> Self {
        Self { name: name.into(), text: text.into(), masked: Vec::new() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Marks every text under a key that names a secret and is no reference, so that a secret written into the
    /// file by mistake is not printed along with the mistake. Keys count by name, known or not.
    pub(super) fn mask_secrets(&mut self, table: &DeTable<'_>) {
        self.mask_table(table, false);
    }

    /// The same, line by line, for a text that is no document.
    pub(super) fn mask_secret_lines(&mut self) {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let mut signs = line.match_indices('=').map(|(at, _)| at);
            if let Some(at) = signs.find(|at| holds_a_secret(&line[..*at], &line[at + 1..])) {
                self.masked.push(start + at + 1..start + line.trim_end().len());
            }
            start += line.len();
        }
    }

    /// The spot where `at` begins.
    pub(super) fn spot(&self, at: &Range<usize>) -> Spot {
        let start = floor(&self.text, at.start);
        let line_start = self.text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |i| start + i);
        let end = floor(&self.text, at.end.clamp(start, line_end));
        Spot {
            line: self.text[..line_start].matches('\n').count() + 1,
            column: self.text[line_start..start].chars().count() + 1,
            excerpt: self.shown(line_start..line_end),
            width: self.text[start..end].chars().count().max(1),
        }
    }

    fn mask(&mut self, node: &Spanned<DeValue<'_>>, secret: bool) {
        match node.get_ref() {
            DeValue::String(text) if secret && !is_reference(text) => self.masked.push(node.span()),
            DeValue::Integer(_) | DeValue::Float(_) if secret => self.masked.push(node.span()),
            DeValue::String(url) if url.contains("://") && url.contains('@') => self.masked.push(node.span()),
            DeValue::Array(items) => items.iter().for_each(|item| self.mask(item, secret)),
            DeValue::Table(table) => self.mask_table(table, secret),
            _ => {}
        }
    }

    fn mask_table(&mut self, table: &DeTable<'_>, secret: bool) {
        for (key, value) in table {
            self.mask(value, secret || names_a_secret(key.get_ref()));
        }
    }

    fn shown(&self, line: Range<usize>) -> String {
        let hidden = |at: usize| self.masked.iter().any(|m| m.contains(&at));
        let mut shown: String = self.text[line.clone()]
            .char_indices()
            .map(|(i, c)| match c {
                _ if hidden(line.start + i) => '*',
                c if c.is_control() => ' ',
                c => c,
            })
            .collect();
        shown.truncate(shown.trim_end().len());
        shown
    }
}

/// Whether `value` stands behind a key that names a secret, at the end of `before`, and is no reference.
fn holds_a_secret(before: &str, value: &str) -> bool {
    let part_of_a_name = |c: char| c.is_alphanumeric() || "_-".contains(c);
    let key = before.trim_end().trim_end_matches(['"', '\'']);
    let key = key.rsplit(|c| !part_of_a_name(c)).next().unwrap_or(key);
    names_a_secret(key) && !only_references(value)
}

/// Whether what is left of a line begins with a quote, perhaps inside a list, and every quoted part is a reference.
fn only_references(value: &str) -> bool {
    let quotes = ['"', '\''];
    let mut quoted = value.split(quotes).skip(1).step_by(2).peekable();
    let first = value.trim_start_matches(|c: char| c == '[' || c.is_whitespace());
    first.starts_with(quotes) && quoted.peek().is_some() && quoted.all(is_reference)
}

/// Hashes are told apart from keys by their form alone, so that neither is shown.
pub(super) fn names_a_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let words = ["token", "credential", "password", "secret", "api_key", "api-key", "authorization"];
    words.iter().any(|part| key.contains(part)) && !key.starts_with("tokens_per_")
        || ["hash", "headers"].contains(&key.as_str())
}

fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}
