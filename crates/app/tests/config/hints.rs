//! What a mistake is told to mean: URLs, addresses, quotes and names.

use sluicegate::config::{Config, Overrides};

use super::{environment, good, refused};

/// What is said of a replica, once on the command line and once in the file. The same, or the test fails.
fn of_replica(url: &str) -> String {
    let overrides = Overrides { replicas: vec![url.to_owned()], ..Overrides::default() };
    let flag = Config::from_text("command line", "", &overrides, &environment).unwrap_err().to_string();
    let file = refused(&format!("[[pools]]\nname = \"p\"\nreplicas = [\"{url}\"]\n"));
    let hint = |told: &str| told.lines().find(|line| line.starts_with("  hint: ")).map(str::to_owned);
    assert_eq!(hint(&flag), hint(&file), "{url}");
    flag
}

#[test]
fn a_replica_url_that_cannot_be_read_comes_with_its_cause() {
    for (url, cause) in [
        ("127.0.0.1:7000", "did you mean \"http://127.0.0.1:7000\"?"),
        ("engine", "did you mean \"http://engine\"?"),
        (" http://engine", "did you mean \"http://engine\"?"),
        ("::1", "did you mean \"http://[::1]\"?"),
        ("http://::1", "did you mean \"http://[::1]\"?"),
        ("https://::1:8000/x", "did you mean \"https://[::1]:8000\"?"),
        ("http://h:80000", "\"80000\" is not a port"),
        ("http://h:", "the port behind the colon is missing"),
        ("http://:80", "the host is missing"),
        ("http://a:1,http://b:2", "several URLs in one text"),
        ("http://a:1/,http://b:2", "several URLs in one text"),
        ("a:1,b:2", "a replica URL has no comma"),
        ("ftp://h", "starts with http:// or https://"),
    ] {
        let told = of_replica(url);
        assert!(told.contains(cause), "{url}: {told}");
    }
}

#[test]
fn a_password_in_a_replica_url_is_refused_and_not_repeated() {
    let told = of_replica("http://user:hunter2@h:1");
    assert!(told.contains("has no user and password") && told.contains("credentials = "), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn a_replica_url_that_ends_in_v1_is_warned_about_with_the_url_that_works() {
    let expected = "leave out /v1, the paths of clients begin with it: write http://h:1";
    let overrides = Overrides { replicas: vec!["http://h:1/v1/".into()], ..Overrides::default() };
    let flag = Config::from_text("command line", "", &overrides, &environment).unwrap();
    let file = good("[[pools]]\nname = \"p\"\nreplicas = [\"http://h:1/v1\"]\n");
    for warnings in [flag.warnings, file.warnings] {
        assert!(warnings.iter().any(|warning| warning.ends_with(expected)), "{warnings:?}");
    }
    let other = good("[[pools]]\nname = \"p\"\nreplicas = [\"http://h:1/api/v10\"]\n");
    assert!(!other.warnings.iter().any(|warning| warning.contains("leave out")), "{:?}", other.warnings);
}

#[test]
fn an_address_that_cannot_be_read_comes_with_the_one_that_was_meant() {
    for (address, hint) in [
        ("7030", "did you mean \"127.0.0.1:7030\"?"),
        (":7030", "did you mean \"0.0.0.0:7030\" or \"127.0.0.1:7030\"?"),
        ("localhost:7030", "did you mean \"127.0.0.1:7030\"?"),
        ("*:7030", "did you mean \"0.0.0.0:7030\"?"),
        ("::1:7030", "did you mean \"[::1]:7030\"?"),
        ("http://127.0.0.1:7030/", "did you mean \"127.0.0.1:7030\"?"),
        (
            "gateway.example:7030",
            "names are not looked up: write an IP address, for example \"0.0.0.0:7030\"",
        ),
        ("127.0.0.1:70300", "ports end at 65535"),
        ("127.0.0.1:http", "the port is a number"),
        ("127.0.0.1", "for example \"127.0.0.1:8080\""),
    ] {
        let told = refused(&format!("[listen]\naddress = \"{address}\"\n"));
        assert!(told.contains(&format!("  hint: {hint}")), "{address}: {told}");
    }
}

#[test]
fn a_text_without_its_last_quote_is_told_so() {
    for text in [
        "gateway_id = \"x\n",
        "gateway_id = 'x\n[listen]\n",
        "[listen]\naddress = \"127.0.0.1:1\nopen = true\n",
    ] {
        let told = refused(text);
        assert!(told.contains("  hint: the quote at the end of the text is missing"), "{told}");
    }
}

#[test]
fn names_of_one_letter_are_not_taken_for_each_other() {
    let route = "[[routes]]\nmodel = \"m\"\n[[routes.targets]]\npool = \"b\"\n";
    let told = refused(&format!("[[pools]]\nname = \"a\"\nreplicas = [\"http://h:1\"]\n{route}"));
    assert!(told.contains("there is no pool \"b\"") && !told.contains("did you mean"), "{told}");
}
