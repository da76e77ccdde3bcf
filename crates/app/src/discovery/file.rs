//! Source `file`: one replica per line with comments, or a JSON list. Read every second and taken when it has changed:
//! that notices a file that was moved into place, mounted, or written elsewhere, whatever the file system tells.

use std::convert::Infallible;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use sluicegate_proxy::plan::{ReplicaPlan, ReplicaUrl};

use super::board::Feed;

/// How often the file is read.
const LOOK: Duration = Duration::from_secs(1);
/// A larger file is a mistake.
const LARGEST: u64 = 1 << 20;

pub(super) async fn follow(path: &Path, feed: &Feed) -> Infallible {
    let mut taken: Option<String> = None;
    loop {
        match read(path) {
            Ok(text) if taken.as_ref() == Some(&text) => {}
            Ok(text) => {
                taken = match parse(&text) {
                    Ok(replicas) => feed.found(&replicas).then_some(text),
                    Err(why) => {
                        feed.failed(&why);
                        None
                    }
                }
            }
            Err(why) => {
                feed.failed(&why);
                taken = None;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn read(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
    match read {
        Ok(_) if text.len() as u64 > LARGEST => Err(format!("{} is larger than 1 MiB", path.display())),
        Ok(_) => Ok(text),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Url(String),
    Object { url: String },
}

/// A file with one line that cannot be read is taken as none: it may be half written.
fn parse(text: &str) -> Result<Vec<ReplicaPlan>, String> {
    if text.trim_start().starts_with('[') {
        let entries: Vec<Entry> = serde_json::from_str(text).map_err(|e| format!("not a JSON list: {e}"))?;
        let urls = entries.into_iter().map(|(Entry::Url(url) | Entry::Object { url })| url);
        return urls.map(|url| replica(&url).map_err(|why| format!("\"{url}\": {why}"))).collect();
    }
    let lines = text.lines().zip(1_usize..).map(|(line, number)| {
        let (url, _) = line.split_once('#').unwrap_or((line, ""));
        (url.trim(), number)
    });
    let lines = lines.filter(|(url, _)| !url.is_empty());
    lines.map(|(url, number)| replica(url).map_err(|why| format!("line {number}: {why}"))).collect()
}

fn replica(url: &str) -> Result<ReplicaPlan, String> {
    let url: ReplicaUrl = url.parse().map_err(|why: sluicegate_proxy::plan::UrlError| why.to_string())?;
    Ok(ReplicaPlan { url, headers: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_lists_are_read_alike() {
        let lines = "# our engines\nhttp://10.0.0.1:8000\n\n  http://10.0.0.2:8000/ # the new one\n";
        let json = r#"["http://10.0.0.1:8000", {"url": "http://10.0.0.2:8000/", "zone": "b"}]"#;
        for text in [lines, json] {
            let replicas = parse(text).expect("it can be read");
            let urls: Vec<&str> = replicas.iter().map(|replica| &*replica.url.text).collect();
            assert_eq!(urls, ["http://10.0.0.1:8000", "http://10.0.0.2:8000"], "{text}");
        }
        assert_eq!(parse("# nothing\n").map(|list| list.len()), Ok(0));
    }

    #[test]
    fn a_file_with_one_wrong_line_is_not_taken() {
        for (text, at) in [
            ("http://10.0.0.1:8000\n10.0.0.2:8000\n", "line 2: "),
            ("http://10.0.0.1:8000\nhttp://", "line 2: "),
            (r#"["http://10.0.0.1:8000", "x"]"#, "\"x\": "),
            (r#"["http://10.0.0.1:8000""#, "not a JSON list"),
        ] {
            assert!(parse(text).expect_err("refused").starts_with(at), "{text}");
        }
    }
}
