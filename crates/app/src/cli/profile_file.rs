//! Profiles of engines as TOML: what `calibrate` writes and `sim --profile FILE` reads.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use sluicegate_lab::engine::{Profile, StepCost};

use crate::bounded_file;

/// One engine. The names are those of the profile in `sluicegate_lab::engine`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProfileFile {
    /// Tokens of prompt and answer together.
    pub(super) max_model_len: Option<u32>,
    block_tokens: u32,
    kv_blocks: u32,
    max_num_batched_tokens: u32,
    max_num_seqs: u32,
    max_num_queued: Option<u32>,
    cost: Cost,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cost {
    base_ns: u64,
    prefill_ns_per_token: f64,
    prefill_ns_per_token_position: f64,
    decode_ns_per_sequence: f64,
    decode_ns_per_context_token: f64,
}

impl ProfileFile {
    pub(super) fn of(profile: &Profile, max_model_len: Option<u32>) -> Self {
        let cost = &profile.cost;
        Self {
            max_model_len,
            block_tokens: profile.block_tokens,
            kv_blocks: profile.kv_blocks,
            max_num_batched_tokens: profile.max_num_batched_tokens,
            max_num_seqs: profile.max_num_seqs,
            max_num_queued: profile.max_num_queued,
            cost: Cost {
                base_ns: u64::try_from(cost.base.as_nanos()).unwrap_or(u64::MAX),
                prefill_ns_per_token: cost.prefill_ns_per_token,
                prefill_ns_per_token_position: cost.prefill_ns_per_token_position,
                decode_ns_per_sequence: cost.decode_ns_per_sequence,
                decode_ns_per_context_token: cost.decode_ns_per_context_token,
            },
        }
    }

    pub(super) fn profile(&self) -> Profile {
        Profile {
            block_tokens: self.block_tokens,
            kv_blocks: self.kv_blocks,
            max_num_batched_tokens: self.max_num_batched_tokens,
            max_num_seqs: self.max_num_seqs,
            max_num_queued: self.max_num_queued,
            cost: StepCost {
                base: Duration::from_nanos(self.cost.base_ns),
                prefill_ns_per_token: self.cost.prefill_ns_per_token,
                prefill_ns_per_token_position: self.cost.prefill_ns_per_token_position,
                decode_ns_per_sequence: self.cost.decode_ns_per_sequence,
                decode_ns_per_context_token: self.cost.decode_ns_per_context_token,
            },
        }
    }

    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = bounded_file::read_text(path, bounded_file::WRITTEN_BY_HAND).with_context(|| {
            format!("{} is neither a known profile nor a file that can be read", path.display())
        })?;
        let file: Self = toml::from_str(&text).with_context(|| path.display().to_string())?;
        let at_least_one =
            [file.block_tokens, file.kv_blocks, file.max_num_batched_tokens, file.max_num_seqs];
        anyhow::ensure!(
            at_least_one.iter().all(|value| *value > 0),
            "{}: block_tokens, kv_blocks, max_num_batched_tokens and max_num_seqs must be above 0",
            path.display()
        );
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for name in Profile::NAMES {
            let profile = Profile::named(name).unwrap();
            let text = toml::to_string(&ProfileFile::of(&profile, Some(4096))).unwrap();
            let read: ProfileFile = toml::from_str(&text).unwrap();
            assert_eq!((read.profile(), read.max_model_len), (profile, Some(4096)));
        }
    }

    #[test]
    fn the_kept_profiles_can_be_read_and_their_prompts_fit() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/profiles");
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = ProfileFile::read(&entry.unwrap().path()).unwrap();
            assert!(file.profile().cost.base > Duration::ZERO);
            assert!(
                u64::from(file.max_model_len.unwrap())
                    <= u64::from(file.kv_blocks) * u64::from(file.block_tokens)
            );
            seen += 1;
        }
        assert!(seen > 0);
    }

    #[test]
    fn a_file_that_is_wrong_is_told_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        let good = toml::to_string(&ProfileFile::of(&Profile::fast(), None)).unwrap();
        for (text, says) in [
            (good.replace("kv_blocks = 12000", "kv_blocks = 0"), "must be above 0"),
            (format!("surprise = 1\n{good}"), "unknown field `surprise`"),
            ("[cost]\n".to_owned(), "missing field"),
        ] {
            std::fs::write(&path, text).unwrap();
            let refusal = format!("{:#}", ProfileFile::read(&path).unwrap_err());
            assert!(refusal.contains("p.toml") && refusal.contains(says), "{refusal}");
        }
        let refusal = format!("{:#}", ProfileFile::read(Path::new("/no/such")).unwrap_err());
        assert!(refusal.contains("neither a known profile nor a file"), "{refusal}");
    }
}
