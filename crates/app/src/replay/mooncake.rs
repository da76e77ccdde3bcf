//! Lines of the Mooncake traces (FAST '25): `{"timestamp": ms, "input_length": tokens, "output_length": tokens,
//! "hash_ids": [...]}`, one id for each 512 tokens of the prompt.

use serde::Deserialize;
use sluicegate_core::Time;
use sluicegate_lab::fleet::Job;
use sluicegate_lab::replay::{Sessions, chained};
use std::collections::BTreeMap;
use std::time::Duration;

use super::trace::{Reader, Recorded};

/// Tokens that one id stands for.
const ID_TOKENS: u32 = 512;
/// The latest moment: some three hundred years.
const LATEST_MILLIS: f64 = 1e13;

pub(super) struct Mooncake {
    block_tokens: u32,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    hash_ids: Vec<u64>,
}

impl Mooncake {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self { block_tokens: block_tokens.max(1), lines: Vec::new() }
    }

    /// The whole blocks of the prompt. An id of 512 tokens is cut into smaller blocks, or is the end of a larger one; the
    /// last id, of a part, stands for no whole block.
    fn blocks(&self, line: &Line) -> Vec<u64> {
        let chain = chained(&line.hash_ids);
        let whole = line.input_length / self.block_tokens;
        let covered = chain.len() as u64 * u64::from(ID_TOKENS);
        let block = |index: u32| {
            let end = u64::from(index + 1) * u64::from(self.block_tokens);
            let place = (end - 1) / u64::from(ID_TOKENS);
            let id = chain.get(usize::try_from(place).ok()?).filter(|_| end <= covered)?;
            // Which part of the id: 0 where the block ends with it.
            let part = (place + 1) * u64::from(ID_TOKENS) - end;
            Some(if part == 0 { *id } else { sluicegate_lab::rng::mix(*id ^ part) })
        };
        (0..whole).map_while(block).collect()
    }
}

impl Reader for Mooncake {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if !(0.0..=LATEST_MILLIS).contains(&line.timestamp) {
            return Err("`timestamp` is no moment in milliseconds".into());
        }
        self.lines.push(line);
        Ok(())
    }

    fn requests(mut self: Box<Self>) -> (Vec<Recorded>, BTreeMap<String, usize>) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.sort_by(|one, other| one.timestamp.total_cmp(&other.timestamp));
        let mut sessions = Sessions::default();
        let mut job = |line: Line| {
            let arrives = Time::ZERO + Duration::try_from_secs_f64(line.timestamp / 1e3).unwrap_or_default();
            let whole = (line.input_length / ID_TOKENS) as usize;
            let ids = chained(line.hash_ids.get(..whole).unwrap_or(&line.hash_ids));
            Job {
                blocks: self.blocks(&line).into(),
                session: sessions.of(&ids),
                // The system prompt's head: 4,096 bytes are some 1,000 tokens, but the talks part after the first id.
                prefix: ids.first().copied(),
                ..Job::unique(arrives, line.input_length, line.output_length)
            }
        };
        (lines.into_iter().map(|line| Recorded::nameless(job(line))).collect(), BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(block_tokens: u32, input_length: u32, ids: &[u64]) -> Vec<u64> {
        let line = Line { timestamp: 0.0, input_length, output_length: 1, hash_ids: ids.to_vec() };
        Mooncake::new(block_tokens).blocks(&line)
    }

    #[test]
    fn ids_become_whole_blocks_of_any_size() {
        let chain = chained(&[7, 8, 9]);
        assert_eq!(blocks(512, 1_300, &[7, 8, 9]), chain[..2]);
        assert_eq!(blocks(1_024, 1_300, &[7, 8, 9]), chain[1..2]);
        let small = blocks(256, 1_300, &[7, 8, 9]);
        assert_eq!((small.len(), small[1], small[3]), (5, chain[0], chain[1]));
        let other = blocks(256, 1_300, &[7, 1, 9]);
        assert_eq!(small[..2], other[..2]);
        assert!(small[2..].iter().zip(&other[2..]).all(|(one, other)| one != other));
        assert_eq!(blocks(512, 9_000, &[7]).len(), 1, "ids end before the prompt does");
    }

    #[test]
    fn a_line_is_a_request() {
        let mut reader = Box::new(Mooncake::new(512));
        reader
            .line(br#"{"timestamp":1500,"input_length":1200,"output_length":9,"hash_ids":[0,1,2]}"#)
            .unwrap();
        assert!(
            reader.line(br#"{"timestamp":-1,"input_length":1,"output_length":9,"hash_ids":[]}"#).is_err()
        );
        assert!(reader.line(br#"{"timestamp":1}"#).is_err());
        let far = br#"{"timestamp":1e300,"input_length":1,"output_length":9,"hash_ids":[]}"#;
        assert!(reader.line(far).unwrap_err().contains("milliseconds"));
        let jobs: Vec<Job> = reader.requests().0.into_iter().map(|recorded| recorded.job).collect();
        assert_eq!((jobs.len(), jobs[0].prompt_tokens, jobs[0].output_tokens), (1, 1_200, 9));
        assert_eq!(jobs[0].arrives, Time::from_nanos(1_500_000_000));
    }
}
