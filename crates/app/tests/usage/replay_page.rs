//! The HTML page of `sluicegate replay`: it needs nothing but itself.

use crate::binary::run;

/// What in a page would be fetched from somewhere, or could fetch.
fn foreign(page: &str) -> Vec<String> {
    // A name that plots carry, fetched by nobody.
    let page = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "").to_lowercase();
    // Inside tags alone: a text may say what it likes.
    let tags = page.split('<').skip(1).filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag);
    let style =
        page.split("<style>").skip(1).filter_map(|rest| rest.split_once("</style>")).map(|(style, _)| style);
    let parts = [
        "http://", "https://", "\"//", "'//", "src=", "srcset=", "href=", "url(", "@import", "data:",
        "action=",
    ];
    let kinds = ["script", "link", "iframe", "object", "embed", "img", "base", "form", "foreignobject"];
    let fetches = |text: &str| parts.into_iter().find(|part| text.contains(part)).map(str::to_owned);
    let listens =
        |tag: &str| tag.split_whitespace().skip(1).find(|word| word.starts_with("on")).map(str::to_owned);
    let is_kind = |tag: &str| {
        let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        kinds.contains(&name).then(|| format!("<{name}"))
    };
    tags.flat_map(|tag| [fetches(tag), is_kind(tag), listens(tag)])
        .chain(style.map(fetches))
        .flatten()
        .collect()
}

const LOG: &str = r#"{"time":"2026-02-03T04:05:00.000Z","outcome":"ok","model":"a","prompt_tokens":4000,"cached_tokens":0,"completion_tokens":50}
{"time":"2026-02-03T04:05:07.000Z","outcome":"ok","model":"a","prompt_tokens":4000,"cached_tokens":0,"completion_tokens":50}
{"time":"2026-02-03T04:05:08.000Z","outcome":"ok","model":"<script src='//x'></script>","prompt_tokens":4000,"cached_tokens":0,"completion_tokens":50}
"#;

const CONFIG: &str = r#"
[[pools]]
name = "<img src=x>"
replicas = ["http://10.0.0.11:8000"]
[[routes]]
model = "a"
[[routes.targets]]
pool = "<img src=x>"
"#;

#[test]
fn a_page_fetches_nothing_whatever_names_are_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let (log, config, page) = (file("<b>.jsonl", LOG), file("a.toml", CONFIG), file("replay.html", ""));
    let policies = ["--policy", "adaptive", "--policy", "random"];
    let configurations = ["--config", &config, "--config", &config];
    for (words, runs) in [(&policies[..], "adaptive"), (&configurations[..], "a.toml")] {
        let ended = run(&[&["replay", &log, "--html", &page], words].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let page = std::fs::read_to_string(&page).unwrap();
        assert_eq!(foreign(&page), [""; 0]);
        assert_eq!(page.matches("<svg").count(), 3);
        assert!(page.contains(runs) && page.contains("&lt;b&gt;.jsonl"));
    }
}

#[test]
fn a_page_that_fetched_something_would_be_found_out() {
    for (part, what) in [
        ("<script>1</script>", "<script"),
        ("<SCRIPT SRC=x></SCRIPT>", "src="),
        ("<link rel=\"stylesheet\" href=\"a.css\">", "href="),
        ("<img alt=\"\">", "<img"),
        ("<p onload=\"x\">", "onload=\"x\""),
        ("<rect fill=\"url(#a)\">", "url("),
        ("<style>@import 'x'</style>", "@import"),
        ("<a ping=\"https://x\">", "https://"),
        ("<svg xmlns=\"//x\">", "\"//"),
    ] {
        let page = format!("<!doctype html><p>src= https://x</p>{part}");
        assert!(foreign(&page).iter().any(|found| found == what), "{part}: {:?}", foreign(&page));
    }
    assert_eq!(foreign("<p>src=https://x</p><svg xmlns=\"http://www.w3.org/2000/svg\">"), [""; 0]);
}
