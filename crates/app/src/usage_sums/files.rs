//! The files to read: their order, and what is inside.

use std::cmp::Reverse;
use std::fs::File;
use std::io::{BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use flate2::read::MultiGzDecoder;
use indicatif::{ProgressBar, ProgressStyle};

/// Below this many bytes a progress bar would only flicker.
const LARGE: u64 = 64 * 1024 * 1024;
/// The rotated files that the gateway keeps beside `NAME`: `NAME.1`, the newest, to `NAME.9`.
const ROTATED: u32 = 9;

/// A source of usage lines.
pub(crate) struct Input {
    /// As in messages.
    pub(crate) name: String,
    pub(crate) source: Box<dyn Read>,
}

/// The files in the order of their lines: rotated ones of a `NAME` stand where its first one stands, the oldest (the
/// highest number) first. `rotated` adds those that exist beside each file.
///
/// # Errors
/// A file is given twice: its lines would be counted twice.
pub(crate) fn in_order(given: &[PathBuf], rotated: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for file in given {
        anyhow::ensure!(!files.contains(file), "{} is given twice", file.display());
        files.push(file.clone());
    }
    if rotated {
        for file in given {
            let beside = beside(file).filter(|path| path.exists() && !given.contains(path));
            files.extend(beside);
        }
    }
    let names: Vec<(PathBuf, u32)> = files.iter().map(|file| rotation(file)).collect();
    let first_of = |name: &Path| names.iter().position(|(other, _)| other == name);
    let mut numbered: Vec<_> = files.into_iter().zip(&names).collect();
    numbered.sort_by_key(|(_, (name, number))| (first_of(name), Reverse(*number)));
    Ok(numbered.into_iter().map(|(file, _)| file).collect())
}

fn beside(file: &Path) -> impl Iterator<Item = PathBuf> {
    let with = move |end: String| {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    (1..=ROTATED).flat_map(move |number| [with(format!(".{number}")), with(format!(".{number}.gz"))])
}

/// `NAME` and number of a rotated file; 0 for one that is not.
fn rotation(file: &Path) -> (PathBuf, u32) {
    let bare = if is_gz(file) { file.with_extension("") } else { file.to_owned() };
    let number = bare.extension().and_then(|end| end.to_str()).and_then(|end| end.parse().ok());
    match number {
        Some(number) => (bare.with_extension(""), number),
        None => (bare, 0),
    }
}

fn is_gz(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "gz")
}

/// Opens all files at once, so that a rotation meanwhile neither hides nor doubles lines. `-` is standard input. The
/// bar counts bytes as they lie in the files; it is drawn if standard error is a terminal and there is much to read,
/// or nobody knows how much.
///
/// # Errors
/// A file cannot be opened.
pub(crate) fn open(files: &[PathBuf]) -> anyhow::Result<(Vec<Input>, ProgressBar)> {
    if files.len() > 500 {
        // The usual soft limit of open files is 1,024. Where it cannot be raised, opening says so.
        let _ = rlimit::increase_nofile_limit(u64::MAX);
    }
    let mut opened = Vec::new();
    for path in files.iter().filter(|path| !is_stdin(path)) {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        let length = file.metadata().map_or(0, |known| known.len());
        opened.push((path, file, length));
    }
    let endless = files.iter().any(|path| is_stdin(path));
    let length = (!endless).then(|| opened.iter().map(|(_, _, length)| length).sum());
    let bar = bar(length, std::io::stderr().is_terminal());
    let mut opened = opened.into_iter();
    let mut input = |path: &PathBuf| {
        if is_stdin(path) {
            let source = Box::new(bar.wrap_read(std::io::stdin()));
            return Some(Input { name: "standard input".into(), source });
        }
        let (path, file, _) = opened.next()?;
        let source = bar.wrap_read(file);
        let source: Box<dyn Read> = if is_gz(path) {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(256 * 1024, source)))
        } else {
            Box::new(source)
        };
        Some(Input { name: path.display().to_string(), source })
    };
    Ok((files.iter().filter_map(&mut input).collect(), bar))
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// `length` in bytes, where it is known.
fn bar(length: Option<u64>, terminal: bool) -> ProgressBar {
    const KNOWN: &str = "{wide_bar} {percent:>3} %  {binary_bytes} of {binary_total_bytes}  {binary_bytes_per_sec}  {eta} left";
    const UNKNOWN: &str = "{spinner} {binary_bytes} read  {binary_bytes_per_sec}";
    let form = if length.is_some() { KNOWN } else { UNKNOWN };
    if !terminal || length.is_some_and(|length| length < LARGE) {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(form).unwrap_or_else(|_| ProgressStyle::default_bar());
    length.map_or_else(ProgressBar::no_length, ProgressBar::new).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(given: &[&str]) -> Vec<String> {
        let given: Vec<PathBuf> = given.iter().map(PathBuf::from).collect();
        in_order(&given, false).unwrap().iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn a_bar_shows_in_a_terminal_for_much_and_for_what_has_no_known_end() {
        assert_eq!(bar(Some(LARGE), true).length(), Some(LARGE));
        assert_eq!(bar(None, true).length(), None);
        for unseen in [bar(Some(LARGE - 1), true), bar(Some(LARGE), false), bar(None, false)] {
            assert!(unseen.is_hidden());
        }
    }

    #[test]
    fn rotated_files_are_read_from_the_oldest_to_the_newest() {
        let expected = ["u.jsonl.10.gz", "u.jsonl.2.gz", "u.jsonl.1", "u.jsonl"];
        assert_eq!(order(&["u.jsonl", "u.jsonl.1", "u.jsonl.10.gz", "u.jsonl.2.gz"]), expected);
    }

    #[test]
    fn other_files_keep_the_order_they_are_given_in() {
        assert_eq!(
            order(&["b.jsonl", "-", "a.jsonl", "b.jsonl.1"]),
            ["b.jsonl.1", "b.jsonl", "-", "a.jsonl"]
        );
        assert_eq!(order(&["b/u.jsonl.1", "a/u.jsonl"]), ["b/u.jsonl.1", "a/u.jsonl"]);
    }

    #[test]
    fn a_file_given_twice_is_refused() {
        let twice = [PathBuf::from("a"), PathBuf::from("a")];
        assert_eq!(in_order(&twice, false).unwrap_err().to_string(), "a is given twice");
    }

    #[test]
    fn rotated_files_beside_a_file_are_found_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["u", "u.1", "u.2.gz", "u.10", "v.1"] {
            std::fs::write(path(name), "").unwrap();
        }
        let expected = vec![path("u.2.gz"), path("u.1"), path("u")];
        assert_eq!(in_order(&[path("u")], true).unwrap(), expected);
        assert_eq!(in_order(&[path("u"), path("u.1")], true).unwrap(), expected);
    }
}
