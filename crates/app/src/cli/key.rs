//! `sluicegate key`: makes API keys and their hashes.

use std::io::{IsTerminal as _, Read as _};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use sha2::{Digest as _, Sha256};

use super::{Failure, print, tell};

/// Digits of a key after its prefix: 43 of 62 kinds are just over 256 bits.
const DIGITS: usize = 43;
const PREFIX: &str = "sk-sg-";
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The largest multiple of 62 below 256: higher bytes are thrown away, or the first digits would occur more often.
const FAIR_BELOW: u8 = 248;
/// More than any key; what is longer on standard input is something else.
const LONGEST_INPUT: u64 = 8 * 1024;

/// Options of `key`.
#[derive(Debug, Args)]
pub(super) struct KeyArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a key, and print it once with its hash and its configuration
    #[command(after_help = "\
The first line is the key: give it to its user, nothing stores it. The configuration needs only the hash.

Examples:
  sluicegate key new --name team-a --project research
  sluicegate key new --name team-a | head -1 | pass insert -m sluicegate/team-a")]
    New(NewArgs),
    /// Read a key from standard input and print its hash
    #[command(after_help = "\
The key is never an argument: arguments stand in the shell's history and in the list of processes,
where others can read them.

Examples:
  sluicegate key hash                                  asks for the key
  pass show sluicegate/team-a | sluicegate key hash
  sluicegate key hash < key.txt")]
    Hash,
}

#[derive(Debug, Args)]
struct NewArgs {
    /// Name in usage lines and metrics [default: made from the hash]
    #[arg(long, value_parser = name)]
    name: Option<String>,
    /// The key's project in usage lines
    #[arg(long, value_parser = name)]
    project: Option<String>,
}

pub(super) fn run(args: &KeyArgs) -> Result<(), Failure> {
    match &args.what {
        What::New(new) => {
            let key = fresh().map_err(Failure::running)?;
            print(&introduced(&key, new))
        }
        What::Hash => {
            let key = from_stdin().map_err(Failure::Usage)?;
            print(&format!("{}\n", hash(&key)))
        }
    }
}

/// The key, its hash, and the section for the configuration: comments apart, all of it can be pasted.
fn introduced(key: &str, args: &NewArgs) -> String {
    let hash = hash(key);
    let made_up = || format!("key-{}", hash.chars().skip("sha256:".len()).take(8).collect::<String>());
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let name = quoted(&args.name.clone().unwrap_or_else(made_up));
    let project = args.project.as_deref().map(|project| format!("project = {}\n", quoted(project)));
    let project = project.unwrap_or_default();
    format!("{key}\n{hash}\n\n[[keys]]\nname = {name}\nhash = \"{hash}\"\n{project}")
}

/// A key from the operating system's random source.
fn fresh() -> anyhow::Result<String> {
    let mut key = PREFIX.to_owned();
    while key.len() < PREFIX.len() + DIGITS {
        let mut bytes = [0; DIGITS];
        getrandom::fill(&mut bytes).context("the operating system gives no random bytes")?;
        let digits = bytes.iter().filter(|byte| **byte < FAIR_BELOW);
        let digits = digits.filter_map(|byte| ALPHABET.get(usize::from(byte % 62)).copied().map(char::from));
        key.extend(digits.take(PREFIX.len() + DIGITS - key.len()));
    }
    Ok(key)
}

fn hash(key: &str) -> String {
    let digits: String = Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

fn from_stdin() -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    let mut text = String::new();
    let read = if stdin.is_terminal() {
        tell("Key, then Enter:\n");
        stdin.read_line(&mut text)
    } else {
        stdin.lock().take(LONGEST_INPUT).read_to_string(&mut text)
    };
    read.context("cannot read a key from standard input")?;
    let key = text.trim();
    anyhow::ensure!(!key.is_empty(), "there is no key on standard input");
    // What a header cannot carry as one word can never match. The message must not repeat the key.
    let word = key.len() < usize::try_from(LONGEST_INPUT)? && key.bytes().all(|byte| byte.is_ascii_graphic());
    anyhow::ensure!(word, "standard input is not one key: expected a single word of printable ASCII");
    Ok(key.to_owned())
}

fn name(text: &str) -> Result<String, &'static str> {
    let good = !text.trim().is_empty() && !text.chars().any(char::is_control);
    if good {
        Ok(text.to_owned())
    } else {
        Err("expected a text that is not empty, without control characters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_the_sha_256_standard() {
        let expected = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash("abc"), expected);
    }

    #[test]
    fn fresh_keys_differ_and_use_the_whole_alphabet() {
        let keys: Vec<String> = (0..200).map(|_| fresh().unwrap()).collect();
        let mut seen: Vec<u8> = keys.iter().flat_map(|key| key[PREFIX.len()..].bytes()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, ALPHABET);
        assert!(keys.iter().all(|key| key.len() == 49 && key.starts_with(PREFIX)));
        let mut unique = keys.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), keys.len());
    }

    #[test]
    fn the_section_can_be_pasted_whatever_the_name() {
        let args = NewArgs { name: Some("a \"b\" \\ ä".into()), project: Some("p".into()) };
        let text = introduced("sk-sg-x", &args);
        let section = &text[text.find("[[keys]]").unwrap()..];
        let read: toml::Table = section.parse().unwrap();
        let key = &read["keys"][0];
        assert_eq!(key["name"].as_str(), Some("a \"b\" \\ ä"));
        assert_eq!(key["project"].as_str(), Some("p"));
        assert_eq!(key["hash"].as_str(), Some(hash("sk-sg-x").as_str()));
    }
}
