//! Links that lead somewhere, and no path that exists on one machine only.

use std::path::Path;

use super::finding::Finding;
use super::source::Repository;

/// Checks every Markdown link to a file, and every text for home folders.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for document in repository.texts.iter().filter(|text| text.path.ends_with(".md")) {
        for (line, target) in links(&document.text) {
            if !leads_somewhere(&document.path, &target, &repository.paths) {
                let what = format!("the link to `{target}` leads nowhere");
                findings.push(Finding::error(
                    &document.path,
                    line,
                    what,
                    "correct the path or take the link out",
                ));
            }
        }
    }
    let own = repository.root.to_string_lossy().into_owned();
    let texts = repository.texts.iter().map(|text| (&text.path, &text.text));
    for (path, text) in texts.chain(repository.rust.iter().map(|file| (&file.path, &file.text))) {
        for (line, what) in machine_paths(text, &own) {
            findings.push(Finding::error(
                path,
                line,
                what,
                "write it relative to the repository, or with a variable",
            ));
        }
    }
    findings
}

/// Line and target of each `[text](target)` outside code.
fn links(document: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in document.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for part in prose.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push((index + 1, target.to_owned()));
            }
        }
    }
    found
}

fn leads_somewhere(from: &str, target: &str, paths: &[String]) -> bool {
    let file = target.split('#').next().unwrap_or_default();
    if file.is_empty() || file.contains("://") || file.starts_with("mailto:") {
        return true;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in Path::new(file).components() {
        match part {
            std::path::Component::ParentDir if parts.pop().is_none() => return false,
            std::path::Component::Normal(name) => parts.push(name.to_str().unwrap_or_default()),
            _ => {}
        }
    }
    let wanted = parts.join("/");
    let folder = format!("{wanted}/");
    wanted.is_empty() || paths.iter().any(|path| *path == wanted || path.starts_with(&folder))
}

/// Lines with a home folder, or with the place of this checkout.
fn machine_paths(text: &str, own: &str) -> Vec<(usize, String)> {
    // Written in two parts so that this file does not find itself.
    let homes =
        [concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/"), concat!("C:\\", "Users\\")];
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let home = homes.iter().find(|home| line.contains(**home)).copied();
        let checkout = (own.matches('/').count() >= 2 && line.contains(own)).then_some(own);
        if let Some(place) = home.or(checkout) {
            found.push((index + 1, format!("a path of somebody's machine (`{place}`)")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{leads_somewhere, links, machine_paths};

    #[test]
    fn links_outside_code_are_read() {
        let document = "see [a](b.md) and [c](d.md#e)\n```\n[x](y)\n```\nand `[p](q)` [r](s)\n";
        let found: Vec<_> =
            links(document).into_iter().map(|(line, target)| format!("{line} {target}")).collect();
        assert_eq!(found, ["1 b.md", "1 d.md#e", "5 s"]);
    }

    #[test]
    fn links_resolve_from_their_own_file() {
        let paths = ["README.md".to_owned(), "docs/a.md".to_owned(), "docs/decisions/0001.md".to_owned()];
        let cases = [
            ("README.md", "docs/a.md", true),
            ("README.md", "docs/decisions", true),
            ("docs/a.md", "../README.md#top", true),
            ("docs/a.md", "decisions/0001.md", true),
            ("docs/a.md", "README.md", false),
            ("docs/a.md", "../../README.md", false),
            ("docs/a.md", "#part", true),
            ("docs/a.md", "https://example.com/x", true),
        ];
        for (from, target, expected) in cases {
            assert_eq!(leads_somewhere(from, target, &paths), expected, "{from} -> {target}");
        }
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let home = ["/ho", "me/ada/code"].concat();
        let cases =
            [("cd /etc/sluicegate", 0), (home.as_str(), 1), ("cd /srv/x/gateway/run", 1), ("~/.cache", 0)];
        for (text, expected) in cases {
            assert_eq!(machine_paths(text, "/srv/x/gateway").len(), expected, "{text}");
        }
        assert!(machine_paths("a /src b", "/src").is_empty(), "a short place would match by chance");
    }
}
