//! Providers' APIs: TLS, credentials that rotate, own header fields.

use super::{findings, good, refused};

/// A file with one provider, `lines` in its pool.
fn with(lines: &str) -> String {
    format!(
        "[[routes]]\nmodel = \"m\"\ntargets = [{{ pool = \"p\" }}]\n[[pools]]\nname = \"p\"\nengine = \"openai\"\n\
         replicas = [\"https://api.example.com/base\"]\n{lines}\n"
    )
}

const TOKEN: &str = "credentials = [\"env:PROVIDER_KEY_1\"]\n";

#[test]
fn a_provider_is_a_hosted_pool_whose_only_address_is_nothing_to_warn_of() {
    let loaded = good(&with(TOKEN));
    let pool = &loaded.plan.pools[0];
    let url = &pool.replicas[0];
    assert_eq!((pool.hosted, url.tls, url.port, &*url.prefix), (true, true, 443, "/base"));
    assert_eq!(loaded.warnings, [""; 0]);
}

#[test]
fn engines_of_ones_own_may_speak_tls_too() {
    let text = with(TOKEN).replace("engine = \"openai\"\n", "");
    let pool = &good(&text).plan.pools[0];
    assert!(!pool.hosted && pool.replicas[0].tls);
}

#[test]
fn credentials_reach_the_plan_in_order() {
    let loaded = good(&with("credentials = [\"env:PROVIDER_KEY_2\", \"env:PROVIDER_KEY_1\"]"));
    let shown: Vec<&str> = loaded.plan.pools[0].credentials.iter().map(|c| &*c.0).collect();
    assert_eq!(shown, ["provider-secret-2", "provider-secret-1"]);
}

#[test]
fn headers_reach_the_plan_in_lower_case_and_are_not_shown() {
    let text = with(
        "headers = { \"OpenAI-Organization\" = \"my org\", \"X-Api-Key\" = \"env:PROVIDER_KEY_1\", \
         \"x-route\" = \"env:BLANKS\" }",
    );
    let loaded = good(&text);
    let mut headers: Vec<(&str, &str)> =
        loaded.plan.pools[0].headers.iter().map(|(name, value)| (&**name, &*value.0)).collect();
    headers.sort_unstable();
    let expected =
        [("openai-organization", "my org"), ("x-api-key", "provider-secret-1"), ("x-route", "two words")];
    assert_eq!(headers, expected);
    assert_eq!(loaded.warnings, [""; 0]);
    let shown = format!("{}{:?}", loaded.summary(), loaded.plan);
    assert!(shown.contains("\"x-api-key\" = \"env:PROVIDER_KEY_1\""), "{shown}");
    assert!(!shown.contains("provider-secret") && !shown.contains("my org"), "{shown}");
}

#[test]
fn mistakes_with_a_provider_are_told_with_their_places() {
    let twice = "credentials = [\"env:PROVIDER_KEY_1\", \"env:PROVIDER_KEY_1\"]";
    let both = format!("{TOKEN}headers = {{ Authorization = \"env:PROVIDER_KEY_2\" }}");
    for (lines, expected) in [
        (twice, "8:38: the same credential twice"),
        ("credentials = []", "8:15: credentials: the list is empty"),
        (&both, "9:11: headers: \"authorization\" is what credentials are sent in"),
        ("slots = \"auto\"", "8:9: slots: a provider's API cannot be asked for its slots"),
        ("headers = 5", "8:11: headers: expected a table"),
        ("headers = { \"a b\" = \"c\" }", "8:13: headers: \"a b\" is no header name"),
        ("headers = { \"\" = \"c\" }", "8:13: headers: \"\" is no header name"),
        ("headers = { Host = \"c\" }", "8:13: headers: \"Host\" belongs to the connection"),
        (
            "headers = { Transfer-Encoding = \"c\" }",
            "headers: \"Transfer-Encoding\" belongs to the connection",
        ),
        ("headers = { content-length = \"1\" }", "headers: \"content-length\" belongs to the connection"),
        ("headers = { TE = \"1\" }", "headers: \"TE\" belongs to the connection"),
        ("headers = { accept-encoding = \"br\" }", "headers: \"accept-encoding\" is written by the gateway"),
        ("headers = { X-Forwarded-For = \"1\" }", "headers: \"X-Forwarded-For\" is written by the gateway"),
        ("headers = { a = \"1\", A = \"2\" }", "8:22: headers: \"a\" is named twice"),
        ("headers = { a = 1 }", "8:17: headers: the value of \"a\" is not text"),
        ("headers = { a = \"\" }", "8:17: headers: the value of \"a\" cannot be one"),
        ("headers = { a = \"x\\r\\ny: z\" }", "headers: the value of \"a\" cannot be one"),
        ("headers = { a = \"env:NOT_SET\" }", "headers: the environment variable NOT_SET is not set"),
        (
            "headers = { x-api-key = \"sk-0123\" }",
            "8:25: headers: a secret such as \"x-api-key\" does not stand",
        ),
    ] {
        let found = findings(&with(lines));
        assert!(found[0].contains(expected), "{expected}: {found:#?}");
    }
}

#[test]
fn a_header_value_that_stands_in_the_file_is_shown_by_no_mistake() {
    for lines in [
        "headers = { x-api-key = \"sk-0123\" }",
        "headers = { x-api-key = \"sk-0123\", a = 1 }",
        "headers = { my-header = \"sk-0123\", host = \"h\" }",
        "headers = { my-header = \"sk-0123\"",
        "[pools.headers]\nauthorization = \"Bearer sk-0123\"",
        "[pools.headers]\nauthorization = Bearer sk-0123",
    ] {
        let told = refused(&with(lines));
        assert!(!told.contains("0123"), "{told}");
    }
}

#[test]
fn a_provider_is_not_asked_for_its_models() {
    let text = with(TOKEN).replace("[[routes]]\nmodel = \"m\"\ntargets = [{ pool = \"p\" }]\n", "");
    let expected = "3:10: a provider's API is not asked for its models, and there is no route";
    assert_eq!(findings(&text), [expected]);
}

#[test]
fn odd_settings_of_a_provider_are_warned_of() {
    let plain = with(TOKEN).replace("https:", "http:");
    for (text, expected) in [
        (with(""), "6:10: engine = \"openai\" and neither credentials nor a header with a secret"),
        (with("headers = { a = \"b\" }"), "6:10: engine = \"openai\" and neither credentials nor"),
        (with("headers = { x-api-key = \"env:PROVIDER_KEY_1\" }"), ""),
        (
            plain.clone(),
            "7:13: http://api.example.com/base: requests to a provider go over the network in the clear",
        ),
        (plain.replace("api.example.com", "127.0.0.1:1"), ""),
        (plain.replace("api.example.com", "localhost"), ""),
        (
            with(&format!("{TOKEN}health = {{ scrape_interval = \"9s\" }}")),
            "9:30: scrape_interval does nothing",
        ),
        (
            with(TOKEN).replace("/base", "/v1"),
            "leave out /v1, the paths of clients begin with it: write https://api.example.com",
        ),
    ] {
        let warnings = good(&text).warnings;
        let told = warnings.join("\n");
        let right = if expected.is_empty() { told.is_empty() } else { told.contains(expected) };
        assert!(right && warnings.len() <= 1, "{text}\n{told}");
    }
}
