//! The built binary, as a user calls it.

use std::process::{Command, Output};

fn sluicegate(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluicegate")).args(words).env_remove("RUST_LOG").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn help_names_every_command_and_gives_examples() {
    let output = sluicegate(&["--help"]);
    let help = stdout(&output);
    assert_eq!(output.status.code(), Some(0));
    for command in ["serve", "check", "explain", "sim", "demo", "Examples:"] {
        assert!(help.contains(command), "{command}");
    }
    assert!(!help.contains("config-docs"), "what is for this repository only is hidden");
}

#[test]
fn each_command_has_help() {
    for (command, option) in [
        ("serve", "--replica"),
        ("check", "<FILE>"),
        ("explain", "--session"),
        ("sim", "--replicas"),
        ("demo", "--no-traffic"),
    ] {
        let output = sluicegate(&[command, "--help"]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(stdout(&output).contains(option), "{command}");
    }
}

#[test]
fn errors_of_the_command_line_end_with_2() {
    for words in [
        &["--no-such-flag"][..],
        &["serve", "--listen", "nowhere"],
        &["serve", "--replica", "ftp://x"],
        &["serve"],
        &["check"],
        &["check", "/no/such/file.toml"],
        &["explain"],
        &["explain", "--model", "m", "--admin", "https://127.0.0.1:1"],
        &["explain", "--file", "/no/such/body.json"],
        &["sim", "--replicas", "0"],
        &["sim", "--profile", "none"],
    ] {
        let output = sluicegate(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(!output.stderr.is_empty(), "{words:?}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
}

#[test]
fn a_bad_file_ends_check_with_2_and_the_place_of_each_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "[listen]\nadress = \"127.0.0.1:8080\"\nmax_body = \"64 bananas\"\n").unwrap();
    let output = sluicegate(&["check", file.to_str().unwrap()]);
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors.contains("bad.toml:2:1"), "{errors}");
    assert!(errors.contains("bad.toml:3:"), "{errors}");
}

#[test]
fn a_good_file_ends_check_with_0_and_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("good.toml");
    std::fs::write(&file, "[[pools]]\nname = \"big\"\nreplicas = [\"http://10.0.0.11:8000\"]\n").unwrap();
    let output = sluicegate(&["check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("http://10.0.0.11:8000"));
}

#[test]
fn the_reference_and_the_schema_are_printed() {
    let output = sluicegate(&["config-docs", "markdown"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("drain_timeout"));
    let output = sluicegate(&["config-docs", "schema"]);
    let schema: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(schema.get("$schema").is_some());
}

#[test]
fn explain_says_where_no_gateway_answers() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = sluicegate(&["explain", "--admin", &free, "--model", "m"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(&free));
}
