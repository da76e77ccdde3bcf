//! Figures in documents come from a run: what stands between the markers is replaced.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::markdown;
use super::results::Results;

const BEGIN: &str = "<!-- bench: `cargo xtask bench --write` writes what follows -->\n";
const END: &str = "<!-- bench: end -->\n";

/// Writes the page into docs/performance.md and the table into README.md. Errors: a document without its markers.
pub(super) fn write(root: &Path, results: &Results) -> Result<()> {
    let parts = [("docs/performance.md", markdown::page(results)), ("README.md", markdown::table(results))];
    for (name, part) in parts {
        let file = root.join(name);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
        let text = replaced(&text, &part).with_context(|| {
            format!("{name} has no place for the table: put `{}` and `{}` there", BEGIN.trim(), END.trim())
        })?;
        fs::write(&file, text).with_context(|| format!("cannot write {name}"))?;
    }
    Ok(())
}

fn replaced(text: &str, part: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{part}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, replaced};

    #[test]
    fn only_what_stands_between_the_markers_is_replaced() {
        let text = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(replaced(&text, "new"), Some(format!("a\n{BEGIN}\nnew\n{END}b\n")));
        assert_eq!(replaced("no markers", "new"), None);
    }

    #[test]
    fn the_documents_have_their_markers() {
        for name in ["docs/performance.md", "README.md"] {
            let text = std::fs::read_to_string(crate::root().join(name)).expect("it is there");
            assert!(replaced(&text, "").is_some(), "{name}");
        }
    }
}
