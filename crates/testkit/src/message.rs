//! Heads of HTTP/1.1 messages as a test reads them: kept byte for byte, with the fields in order.

/// A request or answer head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The bytes as received, blank line included.
    pub raw: Vec<u8>,
    /// The request or status line.
    pub first_line: String,
    /// Field names (in lower case) and values, in order and with repetitions.
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// Reads the head at the start of `bytes`; None until its blank line is there.
    ///
    /// # Panics
    /// A field line without a colon, or one that is not UTF-8: nothing the peer of a test may send.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
        let raw = bytes[..end].to_vec();
        let text = std::str::from_utf8(&raw).expect("a head in UTF-8");
        let mut lines = text.trim_end_matches("\r\n").split("\r\n");
        let first_line = lines.next().unwrap_or_default().to_owned();
        let fields = lines
            .map(|line| {
                let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon in {line:?}"));
                assert_eq!(name.trim(), name, "a blank beside the name in {line:?}");
                (name.to_ascii_lowercase(), value.trim().to_owned())
            })
            .collect();
        Some(Self { raw, first_line, fields })
    }

    /// The values of a field, in order. `name` in lower case.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The only value of a field.
    ///
    /// # Panics
    /// The field is there more than once.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str());
        let first = values.next();
        assert_eq!(values.next(), None, "{name} twice in {}", self.first_line);
        first
    }

    /// True where the field is there at least once.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// Of an answer: its status.
    ///
    /// # Panics
    /// The first line is no status line.
    #[must_use]
    pub fn status(&self) -> u16 {
        let code = self.first_line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        code.and_then(|c| c.parse().ok()).unwrap_or_else(|| panic!("no status line: {:?}", self.first_line))
    }

    /// Of a request: its method.
    #[must_use]
    pub fn method(&self) -> &str {
        self.first_line.split(' ').next().unwrap_or_default()
    }

    /// Of a request: its target.
    #[must_use]
    pub fn target(&self) -> &str {
        self.first_line.split(' ').nth(1).unwrap_or_default()
    }
}
