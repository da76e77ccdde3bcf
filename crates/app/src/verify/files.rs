//! The user's own scenarios.

use std::path::Path;

use anyhow::Context as _;
use sluicegate_lab::scenario::{Scenario, read};

use crate::bounded_file;

/// Every `*.toml` of the folder, by name.
pub(crate) fn from_folder(folder: &Path) -> anyhow::Result<Vec<Scenario>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    anyhow::ensure!(!paths.is_empty(), "{} has no scenario: no file ends in .toml", folder.display());
    paths.sort();
    let one = |path: &std::path::PathBuf| {
        let text = bounded_file::read_text(path, bounded_file::WRITTEN_BY_HAND)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(read(&path.display().to_string(), &text)?)
    };
    paths.iter().map(one).collect()
}
