//! The fields of a usage line that are summed or grouped by, borrowed from the line's bytes.

use std::borrow::Cow;

use serde::Deserialize;

use super::moment;

/// Longer texts are cut when they name a group, so that a group costs bounded memory.
const LONGEST_NAME: usize = 256;

/// One line. Unknown fields are passed over, and what may be `null` may be missing too: logs of older and newer
/// versions are read alike. `time` and `outcome` are what makes an object a usage line.
#[derive(Debug, Deserialize)]
pub(crate) struct Line<'a> {
    #[serde(borrow)]
    pub(crate) time: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) outcome: Text<'a>,
    #[serde(borrow)]
    pub(crate) key: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) project: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) route: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) model: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) replica: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) usage_source: Option<Text<'a>>,
    pub(crate) ttft_ms: Option<f64>,
    pub(crate) total_ms: Option<f64>,
    pub(crate) bytes_in: Option<u64>,
    pub(crate) bytes_out: Option<u64>,
    pub(crate) prompt_tokens: Option<u64>,
    pub(crate) cached_tokens: Option<u64>,
    pub(crate) completion_tokens: Option<u64>,
    pub(crate) reasoning_tokens: Option<u64>,
    pub(crate) cost: Option<f64>,
}

/// A text; copied only where it holds escapes. (Inside an `Option`, serde borrows a `Cow` only through such a type.)
#[derive(Debug, Deserialize)]
pub(crate) struct Text<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

impl<'a> Line<'a> {
    /// Reads a line without its line feed.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let line: Self = serde_json::from_slice(bytes).map_err(|error| place_in_line(&error))?;
        if !moment::is_canonical(&line.time) {
            return Err("`time` is not RFC 3339 in UTC with milliseconds".into());
        }
        Ok(line)
    }
}

impl Text<'_> {
    /// The text as a group's name: at most [`LONGEST_NAME`] bytes, ending in `…` where it was cut.
    pub(crate) fn as_name(&self) -> Cow<'_, str> {
        if self.0.len() <= LONGEST_NAME {
            return Cow::Borrowed(&self.0);
        }
        let end = self.0.floor_char_boundary(LONGEST_NAME - '…'.len_utf8());
        Cow::Owned(format!("{}…", self.0.get(..end).unwrap_or_default()))
    }
}

/// serde_json counts lines from the start of what it was given, which is always the first line here.
fn place_in_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ")
        .map_or(text.clone(), |(what, _)| format!("{what} at column {}", error.column()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_text_is_borrowed_and_an_escaped_one_is_read_right() {
        let bytes =
            br#"{"time":"2026-02-03T04:05:06.789Z","outcome":"ok","route":"plain","model":"a\"\u00e4"}"#;
        let line = Line::read(bytes).unwrap();
        assert!(matches!(&line.route, Some(Text(Cow::Borrowed("plain")))));
        assert_eq!(line.model.unwrap().0, "a\"ä");
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let name = Text(Cow::Owned("ä".repeat(200)));
        let cut = name.as_name();
        assert!(cut.len() <= LONGEST_NAME && cut.ends_with("ä…"), "{cut}");
        assert_eq!(Text(Cow::Borrowed("short")).as_name(), "short");
    }
}
