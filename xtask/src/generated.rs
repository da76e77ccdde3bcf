//! `cargo xtask gen`: files in the repository that the code writes, so that they cannot drift from it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process::{cargo, output};
use crate::{print_help, refuse_unknown};

const HELP: &str = "\
Writes the files that come from the code; `--check` only compares and names what is stale.

Usage: cargo xtask gen [--check]

  docs/configuration.md            every configuration key with its default and meaning
  docs/sluicegate.schema.json      JSON schema of the configuration file, for editors
";

struct Generated {
    path: &'static str,
    /// What `sluicegate config-docs` is asked for.
    form: &'static str,
}

const FILES: &[Generated] = &[
    Generated { path: "docs/configuration.md", form: "markdown" },
    Generated { path: "docs/sluicegate.schema.json", form: "schema" },
];

/// Writes, or with `--check` compares, every generated file.
pub(crate) fn command(root: &Path, words: &[&str]) -> Result<()> {
    match words {
        [] => write(root),
        ["--check"] => check(root),
        ["--help" | "-h"] => print_help(HELP),
        _ => refuse_unknown(words, HELP),
    }
}

fn write(root: &Path) -> Result<()> {
    for file in FILES {
        let path = root.join(file.path);
        let fresh = render(root, file.form)?;
        let verdict = if fs::read(&path).is_ok_and(|now| now == fresh) { "unchanged" } else { "written" };
        fs::write(&path, fresh).with_context(|| format!("cannot write {}", file.path))?;
        println!("{}: {verdict}", file.path);
    }
    Ok(())
}

/// Compares every generated file with what the code says now. Errors: one is stale or missing.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut stale = Vec::new();
    for file in FILES {
        let fresh = render(root, file.form)?;
        let now = fs::read(root.join(file.path)).unwrap_or_default();
        match first_difference(&now, &fresh) {
            Some(line) => stale.push(format!("{}:{line}", file.path)),
            None => println!("{}: fresh", file.path),
        }
    }
    if !stale.is_empty() {
        bail!("stale: {}; mend with `cargo xtask gen` and commit the result", stale.join(", "));
    }
    Ok(())
}

fn render(root: &Path, form: &str) -> Result<Vec<u8>> {
    let mut command = cargo(root);
    command.args(["run", "--quiet", "--locked", "-p", "sluicegate", "--", "config-docs", form]);
    let bytes = output(command)?;
    if bytes.is_empty() {
        bail!("`sluicegate config-docs {form}` printed nothing");
    }
    Ok(bytes)
}

/// The first line (from 1) in which two texts differ; none when they are equal.
fn first_difference(now: &[u8], fresh: &[u8]) -> Option<usize> {
    if now == fresh {
        return None;
    }
    let same = now.iter().zip(fresh).take_while(|(a, b)| a == b);
    Some(1 + same.filter(|(byte, _)| **byte == b'\n').count())
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn the_first_differing_line_is_named() {
        let cases: &[(&str, &str, Option<usize>)] = &[
            ("", "", None),
            ("a\nb\n", "a\nb\n", None),
            ("", "a\n", Some(1)),
            ("a\nb\n", "a\nc\n", Some(2)),
            ("a\n", "a\nb\n", Some(2)),
        ];
        for (now, fresh, expected) in cases {
            assert_eq!(first_difference(now.as_bytes(), fresh.as_bytes()), *expected, "{now:?} {fresh:?}");
        }
    }
}
