//! `sluicegate key`.

use crate::binary::{fed, run};

#[test]
fn a_new_key_comes_with_the_hash_that_key_hash_prints_and_a_section() {
    let made = run(&["key", "new", "--name", "team-a", "--project", "research"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let lines: Vec<&str> = made.stdout.lines().collect();
    let [key, hash, "", section @ ..] = lines.as_slice() else { panic!("{}", made.stdout) };
    assert!(key.starts_with("sk-sg-") && key.len() == 49, "{key}");
    assert!(key.bytes().skip(6).all(|byte| byte.is_ascii_alphanumeric()), "{key}");
    let written = format!("hash = \"{hash}\"");
    assert_eq!(section, ["[[keys]]", "name = \"team-a\"", &written, "project = \"research\""]);
    for input in [format!("{key}\n"), (*key).to_owned(), format!("  {key}\r\n\n")] {
        let hashed = fed(&["key", "hash"], &input);
        assert_eq!((hashed.code, hashed.stdout.trim_end()), (Some(0), *hash), "{}", hashed.stderr);
    }
}

#[test]
fn a_key_without_a_name_is_named_after_its_hash() {
    let made = run(&["key", "new"]);
    let hash = made.stdout.lines().nth(1).unwrap();
    let name = format!("name = \"key-{}\"", &hash["sha256:".len()..][..8]);
    assert!(made.stdout.lines().any(|line| line == name), "{}", made.stdout);
    assert!(!made.stdout.contains("project"), "{}", made.stdout);
}

#[test]
fn what_is_not_one_key_is_refused_and_not_repeated() {
    for input in ["", " \n", "two words", "two\nlines", "schlüssel", &"x".repeat(10_000)] {
        let ended = fed(&["key", "hash"], input);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{input:?}");
        assert!(input.trim().is_empty() || !ended.stderr.contains(input.trim()), "{}", ended.stderr);
    }
}

#[test]
fn a_key_is_no_argument_and_the_help_says_why() {
    assert_eq!(run(&["key", "hash", "sk-sg-x"]).code, Some(2));
    assert!(run(&["key", "hash", "--help"]).stdout.contains("shell's history"));
    for name in ["", " ", "a\nb"] {
        assert_eq!(run(&["key", "new", "--name", name]).code, Some(2), "{name:?}");
    }
}
