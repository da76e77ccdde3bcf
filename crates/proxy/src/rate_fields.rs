//! The `x-ratelimit-*` fields of an answer: what a key may still use.

use std::time::Duration;

use sluicegate_core::{Remaining, WindowLeft};
use smallvec::SmallVec;

const REQUESTS: [&str; 3] =
    ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"];
const TOKENS: [&str; 3] =
    ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"];
/// Room for the values of all six as they usually are.
const ROOM: usize = 96;

/// Names and values.
#[derive(Debug)]
pub(crate) struct RateFields {
    /// The values one behind the other.
    values: String,
    /// Where each ends.
    ends: SmallVec<[(&'static str, usize); 6]>,
}

impl RateFields {
    /// None where there is no limit per minute.
    pub(crate) fn of(Remaining { requests, tokens }: Remaining) -> Option<Self> {
        requests.or(tokens)?;
        let mut fields = Self { values: String::with_capacity(ROOM), ends: SmallVec::new() };
        fields.window(REQUESTS, requests);
        fields.window(TOKENS, tokens);
        Some(fields)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let mut begin = 0;
        self.ends.iter().map(move |&(name, end)| {
            let value = self.values.get(begin..end).unwrap_or_default();
            begin = end;
            (name, value)
        })
    }

    fn window(&mut self, [limit, remaining, reset]: [&'static str; 3], left: Option<WindowLeft>) {
        let Some(left) = left else { return };
        number(&mut self.values, left.limit);
        self.end(limit);
        number(&mut self.values, left.remaining);
        self.end(remaining);
        time(&mut self.values, left.reset);
        self.end(reset);
    }

    fn end(&mut self, name: &'static str) {
        self.ends.push((name, self.values.len()));
    }
}

fn number(text: &mut String, number: u64) {
    text.push_str(itoa::Buffer::new().format(number));
}

/// As OpenAI writes it in these fields: `1s`, `6m0s`, `250ms`.
fn time(text: &mut String, left: Duration) {
    let (minutes, seconds) = (left.as_secs() / 60, left.as_secs() % 60);
    if minutes > 0 {
        number(text, minutes);
        text.push('m');
    }
    if minutes > 0 || seconds > 0 {
        number(text, seconds);
        text.push('s');
    } else {
        number(text, u64::from(left.subsec_millis()));
        text.push_str("ms");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_of_a_key_has_three_fields() {
        let window =
            |limit, seconds| WindowLeft { limit, remaining: limit - 1, reset: Duration::from_secs(seconds) };
        let both =
            RateFields::of(Remaining { requests: Some(window(60, 1)), tokens: Some(window(9000, 61)) });
        assert_eq!(
            both.iter().flat_map(RateFields::iter).collect::<Vec<_>>(),
            [
                ("x-ratelimit-limit-requests", "60"),
                ("x-ratelimit-remaining-requests", "59"),
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-limit-tokens", "9000"),
                ("x-ratelimit-remaining-tokens", "8999"),
                ("x-ratelimit-reset-tokens", "1m1s"),
            ]
        );
        assert!(RateFields::of(Remaining { requests: None, tokens: None }).is_none());
    }

    #[test]
    fn resets_are_written_as_clients_read_them() {
        for (left, written) in
            [(0, "0ms"), (250, "250ms"), (1_000, "1s"), (61_000, "1m1s"), (360_000, "6m0s")]
        {
            let mut text = String::new();
            time(&mut text, Duration::from_millis(left));
            assert_eq!(text, written);
        }
    }
}
