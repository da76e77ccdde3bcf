//! Token counts in every vocabulary the engines use.

/// What one request cost, as the engine tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole prompt, cached tokens included. Anthropic's `input_tokens` leaves out what was read from and written
    /// to the cache, so here it is the sum of `input_tokens`, `cache_read_input_tokens` and
    /// `cache_creation_input_tokens`.
    pub prompt_tokens: u64,
    /// Of these, read from the cache.
    pub cached_tokens: Option<u64>,
    /// Tokens generated, reasoning included.
    pub completion_tokens: u64,
    /// Of these, reasoning.
    pub reasoning_tokens: Option<u64>,
}

/// A count in a usage object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    /// OpenAI's `prompt_tokens`: all of the prompt.
    Prompt,
    /// `input_tokens`: all of the prompt in Responses, the uncached part of it in Messages.
    Input,
    /// `completion_tokens` or `output_tokens`.
    Completion,
    /// `cached_tokens` of the prompt's details.
    Cached,
    /// `reasoning_tokens` of the completion's details.
    Reasoning,
    /// Anthropic's `cache_read_input_tokens`.
    CacheRead,
    /// Anthropic's `cache_creation_input_tokens`.
    CacheCreated,
}

const COUNTS: usize = 7;

/// The counts of one usage object, or of several merged ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    given: u8,
    values: [u64; COUNTS],
}

impl Counts {
    pub(crate) fn set(&mut self, count: Count, value: u64) {
        self.given |= 1 << count as u8;
        self.values[count as usize] = value;
    }

    fn get(&self, count: Count) -> Option<u64> {
        (self.given & 1 << count as u8 != 0).then_some(self.values[count as usize])
    }

    pub(crate) fn has_completion(&self) -> bool {
        self.get(Count::Completion).is_some()
    }

    /// Counts given by `later` replace those here; the others stay (Anthropic tells the prompt first, the rest last).
    pub(crate) fn merge(&mut self, later: &Counts) {
        for (index, value) in later.values.iter().enumerate() {
            if later.given & 1 << index != 0 {
                self.values[index] = *value;
            }
        }
        self.given |= later.given;
    }

    /// `None` where no count of a known name was given.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let cache_read = self.get(Count::CacheRead);
        let input = || {
            let parts = [self.get(Count::Input), cache_read, self.get(Count::CacheCreated)];
            parts.into_iter().flatten().fold(0, u64::saturating_add)
        };
        (self.given != 0).then(|| Usage {
            prompt_tokens: self.get(Count::Prompt).unwrap_or_else(input),
            cached_tokens: self.get(Count::Cached).or(cache_read),
            completion_tokens: self.get(Count::Completion).unwrap_or(0),
            reasoning_tokens: self.get(Count::Reasoning),
        })
    }
}
