//! The reference and the schema of the configuration file, made from its sections.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::raw::File;
use super::read::{KeyDoc, SectionDoc, Value, joined};

/// What [`config_docs`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocsFormat {
    /// A reference for people.
    Markdown,
    /// JSON schema (2020-12) for editors.
    Schema,
}

/// The whole text of `docs/configuration.md` or `docs/sluicegate.schema.json`.
#[must_use]
pub fn config_docs(format: DocsFormat) -> String {
    match format {
        DocsFormat::Markdown => markdown(),
        DocsFormat::Schema => {
            let mut schema = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "title": "Sluicegate configuration",
            });
            if let (Json::Object(schema), Json::Object(file)) = (&mut schema, File::schema()) {
                schema.extend(file);
            }
            format!("{schema:#}\n")
        }
    }
}

/// The schema of one section.
pub(super) fn section_schema(section: &SectionDoc) -> Json {
    let properties: Map<String, Json> =
        section.keys.iter().map(|key| (key.name.into(), key_schema(key))).collect();
    let required: Vec<&str> = section.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let mut schema = json!({
        "type": "object",
        "description": plain(section.about),
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn key_schema(key: &KeyDoc) -> Json {
    let mut schema = key.schema.clone();
    schema["description"] = json!(key.doc);
    // What is shown as a default is TOML; where it is JSON too, editors can offer it.
    if let Ok(default) = serde_json::from_str::<Json>(&key.default)
        && key.section.is_none()
    {
        schema["default"] = default;
    }
    schema
}

const INTRO: &str = "\
# Configuration reference

Made from the code by `sluicegate config-docs markdown`; do not edit. For editors there is
[sluicegate.schema.json](sluicegate.schema.json). `sluicegate check FILE` says what a file means.

- Every key may be left out, unless its default says `required`.
- A duration is a whole number and a unit: `\"250ms\"`, `\"3s\"`, `\"10m\"`, `\"1h\"`.
- A size is a whole number and a unit: `\"512B\"`, `\"64KiB\"`, `\"100MiB\"`, `\"1GiB\"`.
- A secret stands elsewhere and is named: `\"env:NAME\"` or `\"file:PATH\"`. It is read when the file is loaded.
- Relative paths count from the working directory.
- Unknown keys are errors. So is a key that is not supported yet.
- The flags `--listen`, `--admin`, `--threads` and `--replica` go over the file.
";

fn markdown() -> String {
    let mut out = String::from(INTRO);
    if let Some(file) = File::section() {
        section(&mut out, &file, "");
    }
    out
}

fn section(out: &mut String, section_doc: &SectionDoc, path: &str) {
    let title = match (path, section_doc.list) {
        ("", _) => "Top level".into(),
        (_, true) => format!("`[[{path}]]`"),
        (_, false) => format!("`[{path}]`"),
    };
    let _ = write!(out, "\n## {title}\n\n{}\n\n", plain(section_doc.about));
    let _ = writeln!(out, "| key | value | default | meaning |\n|---|---|---|---|");
    for key in section_doc.keys.iter().filter(|key| key.section.is_none()) {
        let default =
            if key.default == "none" || key.required { key.default.clone() } else { code(&key.default) };
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            key.name,
            cell(&key.kind),
            cell(&default),
            cell(key.doc)
        );
    }
    for key in &section_doc.keys {
        if let Some(inner) = &key.section {
            section(out, inner, &joined(path, key.name));
        }
    }
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn plain(about: &str) -> String {
    about.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}
