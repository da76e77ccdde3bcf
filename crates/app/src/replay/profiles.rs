//! What simulated replicas can do: one profile for all, and others for pools by name.

use std::time::Duration;

use anyhow::{Context as _, bail};
use sluicegate_lab::engine::{Profile, StepCost, common_block_tokens};

/// The profile where none is named.
const DEFAULT: &str = "h100";
/// A provider's API is taken to make a token of every answer in this time, whatever its load.
const PROVIDER_STEP: Duration = Duration::from_millis(20);
/// Blocks of a job in one of a provider: nobody sees its cache.
const PROVIDER_BLOCKS: u32 = 1 << 12;

/// A profile and what it was called.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) profile: Profile,
}

/// Profiles by pool.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profiles {
    all: Named,
    pools: Vec<(String, Named)>,
}

impl Profiles {
    /// From words like `h100` and `small=8b`. `read` finds a profile by its name or file.
    ///
    /// # Errors
    /// One is not found, or there are two for the same.
    pub(crate) fn of(
        words: &[String],
        read: impl Fn(&str) -> anyhow::Result<Profile>,
    ) -> anyhow::Result<Self> {
        let named = |name: &str| -> anyhow::Result<Named> {
            let profile = read(name).with_context(|| format!("--profile {name}"))?;
            Ok(Named { name: name.to_owned(), profile })
        };
        let (mut all, mut pools): (Option<Named>, Vec<(String, Named)>) = (None, Vec::new());
        for word in words {
            match word.split_once('=') {
                Some((pool, _)) if pools.iter().any(|(other, _)| other == pool) => {
                    bail!("--profile {word}: a second profile for pool {pool}: leave one of them out")
                }
                Some((pool, name)) => pools.push((pool.to_owned(), named(name)?)),
                None if all.is_some() => bail!(
                    "--profile {word}: a second profile for all replicas: leave one of them out, or write \
                     POOL={word}"
                ),
                None => all = Some(named(word)?),
            }
        }
        let all = match all {
            Some(all) => all,
            None => named(DEFAULT)?,
        };
        Ok(Self { all, pools })
    }

    /// That of replicas of which nothing else is said.
    pub(crate) fn all(&self) -> &Named {
        &self.all
    }

    /// That of a pool, where one was named.
    pub(crate) fn of_pool(&self, pool: &str) -> Option<&Named> {
        self.pools.iter().find(|(name, _)| name == pool).map(|(_, named)| named)
    }

    /// The pools that have one of their own.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &str> {
        self.pools.iter().map(|(name, _)| name.as_str())
    }

    /// Tokens in a block that fits into those of all of them without a rest.
    pub(crate) fn block_tokens(&self) -> u32 {
        let own = self.pools.iter().map(|(_, named)| &named.profile);
        common_block_tokens(own.chain([&self.all.profile]))
    }
}

/// What a provider's API is taken for where nothing is said of it, beside jobs with blocks of so many tokens.
pub(super) fn provider(block_tokens: u32) -> Profile {
    Profile {
        block_tokens: block_tokens.saturating_mul(PROVIDER_BLOCKS),
        kv_blocks: 1 << 16,
        max_num_batched_tokens: 1 << 30,
        max_num_seqs: 1 << 16,
        max_num_queued: None,
        cost: StepCost {
            base: PROVIDER_STEP,
            prefill_ns_per_token: 0.0,
            prefill_ns_per_token_position: 0.0,
            decode_ns_per_sequence: 0.0,
            decode_ns_per_context_token: 0.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> anyhow::Result<Profiles> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Profiles::of(&words, |name| Profile::named(name).context("there is none"))
    }

    #[test]
    fn a_pool_may_have_a_profile_of_its_own() {
        let profiles = of(&["small=8b", "fast"]).unwrap();
        assert_eq!((&*profiles.all().name, &*profiles.of_pool("small").unwrap().name), ("fast", "8b"));
        assert_eq!(profiles.of_pool("large"), None);
        assert_eq!(of(&["small=8b"]).unwrap().all().name, DEFAULT);
        assert_eq!(of(&["small=8b"]).unwrap().block_tokens(), 16, "the ids of h100 are cut in parts");
    }

    #[test]
    fn what_is_wrong_with_a_profile_is_told_with_its_words() {
        for (words, says) in [
            (&["none"][..], "--profile none: there is none"),
            (&["a=none"], "--profile none: there is none"),
            (&["a=8b", "a=fast"], "a second profile for pool a: leave one"),
            (&["8b", "fast"], "write POOL=fast"),
        ] {
            let refusal = format!("{:#}", of(words).unwrap_err());
            assert!(refusal.contains(says), "{refusal}");
        }
    }
}
