//! Names that say nothing and so collect everything.

use super::finding::Finding;
use super::source::{Repository, RustFile};

const BANNED: &[&str] = &[
    "util", "utils", "utility", "common", "manager", "managers", "helper", "helpers", "type", "types",
    "misc", "shared", "stuff",
];

/// Looks at file and folder names, and at modules written inside a file.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.rust.iter().flat_map(names_of).collect()
}

fn names_of(file: &RustFile) -> Vec<Finding> {
    let finding = |line: usize, name: &str| {
        let what = format!("a module called `{name}`");
        Finding::error(&file.path, line, what, "name it after the one idea in it")
    };
    let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    let from_path = stem.split('/').filter(|part| BANNED.contains(part)).map(|part| finding(1, part));
    let inline = file.tokens.windows(3).filter(|window| window[0].text == "mod" && window[2].text == "{");
    let from_inline = inline
        .filter(|window| BANNED.contains(&window[1].text.as_str()))
        .map(|window| finding(window[1].line, &window[1].text));
    from_path.chain(from_inline).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::RustFile;
    use super::names_of;

    #[test]
    fn empty_names_are_refused_wherever_they_stand() {
        let cases = [
            ("crates/x/src/pool.rs", "mod pins { }", 0),
            ("crates/x/src/utils.rs", "", 1),
            ("crates/x/src/common/pool.rs", "", 1),
            ("crates/x/src/pool.rs", "mod helper { }", 1),
            ("crates/x/src/pool.rs", "// a common helper", 0),
        ];
        for (path, text, expected) in cases {
            let file = RustFile::parse(path, text).expect("it parses");
            assert_eq!(names_of(&file).len(), expected, "{path} {text}");
        }
    }
}
