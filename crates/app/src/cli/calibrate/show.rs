//! What a calibration came to: the profile with what it was made of, as a file and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_lab::calibrate::{Fit, Found};

use super::ProfileFile;

/// A profile and what it was fitted to.
pub(super) struct Fitted {
    pub(super) model: String,
    pub(super) found: Found,
    pub(super) fit: Fit,
    pub(super) profile: ProfileFile,
}

impl Fitted {
    /// The profile, under comments that tell what was measured.
    ///
    /// # Errors
    /// The profile cannot be written as TOML.
    pub(super) fn toml(&self) -> anyhow::Result<String> {
        let (cold, warm) = (&self.found.cold, &self.found.warm);
        let mut text = format!(
            "# Fitted to {} by sluicegate calibrate: on the mean {:.1} % off from what was measured.\n\
             # Prefix cache: {:.0} tokens took {:.1} ms unknown; {:.0} tokens took {:.1} ms with {:.0} % of them cached.\n",
            self.model.escape_default(),
            self.fit.error * 100.0,
            cold.tokens,
            millis(cold.took),
            warm.tokens,
            millis(warm.took),
            self.found.cached_share * 100.0
        );
        for seen in &self.found.observations.prefill {
            writeln!(text, "# prompt of {:.0} tokens: {:.2} ms", seen.tokens, millis(seen.took))?;
        }
        for seen in &self.found.observations.decode {
            let (batch, context, took) = (seen.batch, seen.context, millis(seen.took));
            writeln!(
                text,
                "# batch of {batch:.0} with contexts of {context:.0} tokens: {took:.2} ms a token"
            )?;
        }
        Ok(format!("{text}\n{}", toml::to_string(&self.profile)?))
    }

    /// The same as one JSON object, indented, and a line feed. Names that end in `_ms` are milliseconds, in `_share` parts
    /// of one; the profile has the names of the file.
    ///
    /// # Errors
    /// The profile cannot be written as JSON.
    pub(super) fn json(&self) -> anyhow::Result<String> {
        let (cold, warm) = (&self.found.cold, &self.found.warm);
        let observations = &self.found.observations;
        let prefill = |seen: &sluicegate_lab::calibrate::Prefill| json!({ "tokens": seen.tokens, "took_ms": millis(seen.took) });
        let decode = |seen: &sluicegate_lab::calibrate::Decode| json!({ "batch": seen.batch, "context_tokens": seen.context, "token_ms": millis(seen.took) });
        let object = json!({
            "model": self.model,
            "error_share": self.fit.error,
            "prefix_cache": {
                "cold": prefill(cold),
                "warm": prefill(warm),
                "cached_share": self.found.cached_share,
            },
            "prefill": observations.prefill.iter().map(prefill).collect::<Vec<Value>>(),
            "decode": observations.decode.iter().map(decode).collect::<Vec<Value>>(),
            "profile": serde_json::to_value(&self.profile)?,
        });
        Ok(format!("{object:#}\n"))
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_lab::calibrate::{Decode, Observations, Prefill};
    use sluicegate_lab::engine::Profile;

    fn fitted() -> Fitted {
        let prefill = |tokens, micros| Prefill { tokens, took: Duration::from_micros(micros) };
        let decode = |batch, context, micros| Decode { batch, context, took: Duration::from_micros(micros) };
        let observations = Observations {
            prefill: vec![prefill(32.0, 8_120), prefill(4_096.0, 171_550)],
            decode: vec![decode(1.0, 48.0, 7_040), decode(8.0, 2_070.0, 9_310)],
        };
        let profile = Profile::h100();
        Fitted {
            model: "m".into(),
            found: Found {
                observations,
                cold: prefill(4_096.0, 171_600),
                warm: prefill(4_100.0, 9_200),
                cached_share: 0.98,
            },
            fit: Fit { cost: profile.cost.clone(), error: 0.034 },
            profile: ProfileFile::of(&profile, Some(8_192)),
        }
    }

    #[test]
    fn the_numbers_of_the_json_are_those_of_the_file() {
        let (file, object) = (fitted().toml().unwrap(), fitted().json().unwrap());
        let object: Value = serde_json::from_str(&object).unwrap();
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_f64).unwrap();
        let told = |pointer: &str, decimals: usize| format!("{:.decimals$}", number(pointer));
        let percent = |pointer: &str, decimals: usize| format!("{:.decimals$}", number(pointer) * 100.0);
        let mut expected = vec![
            format!(
                "# Fitted to m by sluicegate calibrate: on the mean {} % off",
                percent("/error_share", 1)
            ),
            format!(
                "# Prefix cache: {} tokens took {} ms unknown; {} tokens took {} ms with {} % of them cached.",
                told("/prefix_cache/cold/tokens", 0),
                told("/prefix_cache/cold/took_ms", 1),
                told("/prefix_cache/warm/tokens", 0),
                told("/prefix_cache/warm/took_ms", 1),
                percent("/prefix_cache/cached_share", 0)
            ),
        ];
        for at in 0..2 {
            let (tokens, took) =
                (told(&format!("/prefill/{at}/tokens"), 0), told(&format!("/prefill/{at}/took_ms"), 2));
            expected.push(format!("# prompt of {tokens} tokens: {took} ms"));
            let part = |name: &str, decimals| told(&format!("/decode/{at}/{name}"), decimals);
            expected.push(format!(
                "# batch of {} with contexts of {} tokens: {} ms a token",
                part("batch", 0),
                part("context_tokens", 0),
                part("token_ms", 2)
            ));
        }
        for line in expected {
            assert!(file.contains(&line), "{line}\n{file}");
        }
        let profile: ProfileFile = toml::from_str(&file).unwrap();
        assert_eq!(serde_json::from_value::<ProfileFile>(object["profile"].clone()).unwrap(), profile);
    }

    #[test]
    fn the_members_of_the_json_are_these_with_their_units_in_their_names() {
        let object: Value = serde_json::from_str(&fitted().json().unwrap()).unwrap();
        let members =
            |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(members(&object), "decode error_share model prefill prefix_cache profile");
        assert_eq!(members(&object["prefix_cache"]), "cached_share cold warm");
        assert_eq!(members(&object["prefill"][0]), "tokens took_ms");
        assert_eq!(members(&object["decode"][1]), "batch context_tokens token_ms");
        assert_eq!(
            (&object["prefill"][1]["took_ms"], &object["decode"][0]["token_ms"]),
            (&json!(171.55), &json!(7.04))
        );
    }
}
