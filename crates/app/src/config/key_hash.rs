//! The hash of a client's key. The key itself never stands in a file.

use serde_json::{Value as Json, json};

use sluicegate_proxy::plan::KeyHash;

use super::values::{Refusal, Text};

/// SHA-256 of no bytes at all: what a shell makes of a variable that is not set.
const OF_NOTHING: KeyHash = KeyHash([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
    0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

const PREFIX: &str = "sha256:";
const RUN: &str = "run `sluicegate key hash` and write what it prints: \"sha256:\" and 64 hex digits";

impl Text for KeyHash {
    const KIND: &'static str = "\"sha256:\" and 64 hex digits";
    const EXAMPLE: &'static str = "what `sluicegate key new` or `sluicegate key hash` prints";

    /// No message repeats `text`: it may be the key itself.
    fn parse(text: &str) -> Result<Self, Refusal> {
        let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
        let Some(digits) = text.strip_prefix(PREFIX) else {
            return Err(match text.split_once(':') {
                _ if text.is_empty() => Refusal::wrong("the hash is empty", RUN),
                _ if text.len() == 64 && hex(text) => Refusal::wrong(
                    "\"sha256:\" is missing in front of the 64 hex digits",
                    format!("write it there; if this is the key itself, {RUN}"),
                ),
                Some((kind, _)) if OTHER_KINDS.contains(&kind.to_ascii_lowercase().as_str()) => {
                    Refusal::wrong("only SHA-256 hashes of keys are known here", RUN)
                }
                _ => Refusal::wrong("this looks like the key itself, which does not stand in the file", RUN),
            });
        };
        if !hex(digits) {
            let what = "what follows \"sha256:\" is no hex number; it looks like the key itself";
            return Err(Refusal::wrong(what, RUN));
        }
        match bytes(digits) {
            Some(hash) if hash == OF_NOTHING.0 => {
                Err(Refusal::wrong("this is the hash of an empty key", RUN))
            }
            Some(hash) => Ok(Self(hash)),
            None => Err(Refusal::wrong(format!("{} hex digits where 64 belong", digits.len()), RUN)),
        }
    }

    fn text(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{digits}")
    }

    fn text_schema() -> Json {
        json!({ "type": "string", "pattern": "^sha256:[0-9a-fA-F]{64}$" })
    }
}

const OTHER_KINDS: [&str; 8] = ["sha256", "sha1", "sha384", "sha512", "md5", "blake2b", "blake3", "bcrypt"];

/// 32 bytes from 64 hex digits.
fn bytes(digits: &str) -> Option<[u8; 32]> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let pair = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.iter().map(pair).collect::<Option<Vec<u8>>>()?.try_into().ok()
}
