//! Secrets are named, read at load, and never shown.

use super::{good, refused};

fn with_token(token: &str) -> String {
    format!(
        "[admin]\ntoken = {token}\n[[pools]]\nname = \"a\"\nreplicas = [\"http://h:1\", \"http://h:2\"]\n"
    )
}

#[test]
fn a_secret_is_read_from_the_environment() {
    let loaded = good(&with_token("\"env:ADMIN_TOKEN\""));
    assert_eq!(loaded.admin.token.as_deref(), Some("admin-secret"));
}

#[test]
fn a_secret_is_read_from_a_file_without_its_line_end() {
    let path = std::env::temp_dir().join(format!("sluicegate-secret-{}", std::process::id()));
    std::fs::write(&path, "from-a-file\n").unwrap();
    let loaded = good(&with_token(&format!("\"file:{}\"", path.display())));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(loaded.admin.token.as_deref(), Some("from-a-file"));
}

#[test]
fn a_pool_credential_reaches_the_plan() {
    let text = with_token("\"env:ADMIN_TOKEN\"") + "credentials = [\"env:VLLM_API_KEY\"]\n";
    assert_eq!(good(&text).plan.pools[0].credentials.first().map(|c| &*c.0), Some("engine-secret"));
}

#[test]
fn a_summary_and_debug_output_hold_no_secret() {
    let text = with_token("\"env:ADMIN_TOKEN\"") + "credentials = [\"env:VLLM_API_KEY\"]\n";
    let loaded = good(&text);
    let shown = format!("{}{:?}", loaded.summary(), loaded.admin);
    assert!(shown.contains("with a token") && shown.contains("env:VLLM_API_KEY"), "{shown}");
    assert!(!shown.contains("admin-secret") && !shown.contains("engine-secret"), "{shown}");
}

#[test]
fn a_secret_that_cannot_be_had_says_which_and_how() {
    for (token, what) in [
        ("\"env:NOT_SET\"", "2:9: token: the environment variable NOT_SET is not set"),
        ("\"file:/no/such/file\"", "2:9: token: /no/such/file cannot be read: "),
        ("\"env:BLANKS\"", "2:9: token: what env:BLANKS holds cannot be a token"),
    ] {
        let told = refused(&with_token(token));
        assert!(told.starts_with(&format!("gate.toml:{what}")), "{told}");
    }
}

#[test]
fn a_literal_secret_is_refused_and_not_repeated() {
    let expected = "\
gate.toml:2:9: token: a secret does not stand in the file itself
  2 | token = ********
    |         ^^^^^^^^
  hint: name its place instead: \"env:NAME\" or \"file:PATH\"

1 error";
    assert_eq!(refused(&with_token("\"sk-123\"")), expected);
}

#[test]
fn a_literal_secret_is_not_shown_by_any_other_mistake() {
    for text in [
        with_token("[\"sk-123\"]"),
        with_token("{ value = \"sk-123\" }"),
        with_token("\"sk-123"),
        with_token("sk-123"),
        with_token("\"env:ADMIN_TOKEN\"").replace("token =", "api_token = \"sk-123\"\ntoken ="),
        with_token("\"env:ADMIN_TOKEN\"") + "credentials = \"sk-123\"\n",
        with_token("\"env:ADMIN_TOKEN\"") + "credentials = [\"env:VLLM_API_KEY\", \"sk-123\"\n",
        with_token("\"env:ADMIN_TOKEN\"") + "discover = { a = 1, token = \"sk-123\"\n",
        with_token("\"env:ADMIN_TOKEN\"") + "discover = { token = \"sk-123\" }\n",
        with_token("\"env:ADMIN_TOKEN\"") + "[limits]\nstore = \"redis://:sk-123@h\"\n",
        with_token("\"env:ADMIN_TOKEN\"").replace("http://h:1", "http://user:sk-123@h"),
    ] {
        let told = refused(&text);
        assert!(!told.contains("sk-123"), "{told}");
    }
}
