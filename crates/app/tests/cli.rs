//! The built binary, as a user calls it.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

fn sluicegate(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluicegate")).args(words).env_remove("RUST_LOG").output().unwrap()
}

fn with_stdin(words: &[&str], text: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluicegate"));
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
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
    for command in ["serve", "check", "explain", "sim", "load", "demo", "Examples:"] {
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
        ("load", "--goodput"),
        ("calibrate", "--max-num-seqs"),
        ("verify", "--live"),
        ("replay", "--policy"),
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
        &["explain", "--model", "m", "--token-env", "SLUICEGATE_NO_SUCH_VARIABLE"],
        &["demo", "--port", "9090"],
        &["explain", "--model", "m", "--admin", "https://127.0.0.1:1"],
        &["explain", "--file", "/no/such/body.json"],
        &["sim", "--replicas", "0"],
        &["sim", "--profile", "none"],
        &["calibrate", "host:80"],
        &["calibrate"],
        &["calibrate", "http://127.0.0.1:1", "--max-num-seqs", "many"],
        &["replay"],
        &["replay", "/no/such/trace.jsonl"],
        &["replay", "/no/such/trace.jsonl", "--policy", "luck"],
        &["replay", "/no/such/trace.jsonl", "--replicas", "none"],
        &["verify", "--seed", "one"],
        &["load"],
        &["load", "https://127.0.0.1:1"],
        &["load", "http://127.0.0.1:1", "--key", "sk-123"],
        &["load", "http://127.0.0.1:1", "--key", "env:SLUICEGATE_NO_SUCH_VARIABLE"],
        &["load", "http://127.0.0.1:1", "--prompt-tokens", "9-1"],
        &["load", "http://127.0.0.1:1", "--rate", "0"],
        &["load", "http://127.0.0.1:1", "--rate", "1", "--arrival", "gamma"],
        &["load", "http://127.0.0.1:1", "--trace", "/no/such/file.jsonl"],
        &["load", "http://127.0.0.1:1", "--goodput", "p99:1s"],
        &["sim", "--fault", "1:hang"],
        &["sim", "--fault", "0:explode"],
    ] {
        let output = sluicegate(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", stderr(&output));
        assert!(stderr(&output).ends_with('\n'), "{words:?}: {}", stderr(&output));
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

#[test]
fn mistakes_of_the_command_line_come_with_the_way_out() {
    for (words, expected) in [
        (
            &["serve", "--replica", "http://h", "--listen", "localhost:7030"][..],
            "hint: did you mean \"127.0.0.1:7030\"?",
        ),
        (&["serve", "--replica", "http://h", "--admin", "7030"], "hint: did you mean \"127.0.0.1:7030\"?"),
        (&["sim", "--listen", "localhost:7030"], "hint: did you mean \"127.0.0.1:7030\"?"),
        (&["serve", "--replica", "http://h", "--listen", "0.0.0.0:7030"], "start with --open"),
        (&["explain"], "give --model NAME or --file FILE"),
        (
            &["explain", "--model", "m", "--token-env", "SLUICEGATE_NO_SUCH_VARIABLE"],
            "SLUICEGATE_NO_SUCH_VARIABLE",
        ),
        (&["demo", "--port", "9090"], "--port and --admin-port are both 9090"),
    ] {
        let errors = stderr(&sluicegate(words));
        assert!(errors.contains(expected), "{words:?}: {errors}");
    }
}

#[test]
fn check_reads_standard_input_and_takes_the_flags_of_serve() {
    let output = with_stdin(&["check", "-"], "[listen]\nthreads = 1\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("standard input: there is no pool"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--replica URL"), "{}", stderr(&output));
    let words = ["check", "-", "--replica", "http://h:1", "--listen", "0.0.0.0:80", "--open"];
    let output = with_stdin(&words, "[listen]\nthreads = 1\n");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("listen   0.0.0.0:80, 1 thread"), "{}", stdout(&output));
}

#[test]
fn check_warns_of_usage_lines_that_could_not_be_written_and_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("file"), "").unwrap();
    for (usage, warned) in [
        (path("new.jsonl"), false),
        (path("file"), false),
        (path("no/such/folder.jsonl"), true),
        (path("file/below.jsonl"), true),
        (path(""), true),
    ] {
        let output = with_stdin(&["check", "-", "--replica", "http://h:1", "--usage", &usage], "");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let warning = format!("warning: --usage {usage}: usage lines could not be written to {usage}");
        assert_eq!(stdout(&output).contains(&warning), warned, "{usage}: {}", stdout(&output));
        assert_eq!(stderr(&output), "");
    }
    let absent = path("no/such/folder.jsonl");
    let file = format!("# a comment\n[usage]\noutput = [\"stdout\", \"file:{absent}\"]\n");
    let output = with_stdin(&["check", "-", "--replica", "http://h:1", "--replica", "http://h:2"], &file);
    let warning = format!(
        "warning: standard input:3:21: usage lines could not be written to {absent} here and now: No such file or \
         directory (os error 2); make its folder, or name another one\n"
    );
    assert!(stdout(&output).ends_with(&warning), "{}", stdout(&output));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn the_help_of_serve_is_not_broken_in_the_middle_of_a_sentence() {
    let help = stdout(&sluicegate(&["serve", "--help"]));
    let at = help.find("SIGTERM").unwrap();
    assert!(help[at..].lines().count() == 3, "{}", &help[at..]);
}
