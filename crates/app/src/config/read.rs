//! Reads a spanned TOML document into sections of keys. Nothing stops at the first error: a key that cannot be
//! read is reported and keeps its default, and reading goes on.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostics::{Origin, Problems};
use super::nearest::nearest;
use super::source::names_a_secret;

/// A value of the document and its span.
pub(super) type Node<'d> = &'d Spanned<DeValue<'d>>;

/// Looks a secret's environment variable up.
pub(super) type Lookup<'s> = &'s dyn Fn(&str) -> Option<String>;

/// A value and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Set<T> {
    pub(super) value: T,
    pub(super) origin: Origin,
    /// False: what was given could not be read, `value` is a stand-in that no further rule should judge.
    pub(super) sound: bool,
}

impl<T> Set<T> {
    pub(super) fn unset(value: T) -> Self {
        Self { value, origin: Origin::Default, sound: true }
    }

    pub(super) fn flag(value: T, flag: &str) -> Self {
        Self { value, origin: Origin::Flag(flag.into()), sound: true }
    }

    pub(super) fn given(&self) -> bool {
        self.origin != Origin::Default
    }
}

/// Something a key can hold.
pub(super) trait Value: Sized {
    /// What is expected, as it stands in an error and in the reference: "a duration".
    fn kind() -> String;
    /// JSON schema of it.
    fn schema() -> Json;
    /// Reads it, or reports why not.
    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self>;
    /// As it would stand in the file.
    fn show(&self) -> String;
    /// Whether the key must be given.
    const REQUIRED: bool = false;
    /// The keys, where it is a section or a list of sections.
    fn section() -> Option<SectionDoc> {
        None
    }
    /// Adds every key under `path` that differs from `default`.
    fn changes(&self, default: &Self, path: &str, out: &mut Vec<String>) {
        let shown = self.show();
        if shown != default.show() {
            out.push(format!("{path} = {shown}"));
        }
    }
}

/// A section as the reference shows it.
pub(super) struct SectionDoc {
    pub(super) about: &'static str,
    /// `[[name]]` rather than `[name]`.
    pub(super) list: bool,
    pub(super) keys: Vec<KeyDoc>,
}

/// The dotted path of `key` under `path`.
pub(super) fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}

/// A key as the reference shows it.
pub(super) struct KeyDoc {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    pub(super) kind: String,
    pub(super) default: String,
    pub(super) required: bool,
    pub(super) schema: Json,
    pub(super) section: Option<SectionDoc>,
}

impl KeyDoc {
    pub(super) fn of<T: Value>(name: &'static str, doc: &'static str, default: &T) -> Self {
        Self {
            name,
            doc: doc.trim(),
            kind: T::kind(),
            default: default.show(),
            required: T::REQUIRED,
            schema: T::schema(),
            section: T::section(),
        }
    }
}

/// Walks the document.
pub(super) struct Reader<'s> {
    pub(super) problems: Problems<'s>,
    pub(super) lookup: Lookup<'s>,
    /// Names on the way here, and whether each is a list.
    path: Vec<(&'static str, bool)>,
    /// The list just read lacks the items that could not be read.
    partial: bool,
}

impl<'s> Reader<'s> {
    pub(super) fn new(problems: Problems<'s>, lookup: Lookup<'s>) -> Self {
        Self { problems, lookup, path: Vec::new(), partial: false }
    }

    /// The key being read.
    pub(super) fn key(&self) -> &'static str {
        self.path.last().map_or("", |(name, _)| name)
    }

    /// Reads the key `name` of `table` into `slot`, where it is given.
    pub(super) fn field<T: Value>(
        &mut self,
        (table, header): (&DeTable<'_>, &Origin),
        name: &'static str,
        slot: &mut Set<T>,
    ) {
        let Some((_, node)) = table.iter().find(|(key, _)| key.get_ref() == name) else {
            if T::REQUIRED {
                slot.sound = false;
                let section = self.section_name();
                self.problems
                    .add(header, format!("the key \"{name}\" is missing in {section}"))
                    .hint(format!("add {name} = ... ({})", T::kind()));
            }
            return;
        };
        self.path.push((name, false));
        slot.origin = Origin::File(node.span());
        let value = T::read(node, self);
        slot.sound = value.is_some() && !std::mem::take(&mut self.partial);
        if let Some(value) = value {
            slot.value = value;
        }
        self.path.pop();
    }

    /// The table behind `node`, its keys held against those of `T`.
    pub(super) fn table<'d, T: Value>(&mut self, node: Node<'d>) -> Option<(&'d DeTable<'d>, Origin)> {
        let Some(table) = node.get_ref().as_table() else {
            let section = self.section_name();
            self.wrong_type::<T>(node).hint(format!("write {section} on a line of its own, its keys below"));
            return None;
        };
        let known = T::section().map(|s| s.keys).unwrap_or_default();
        for (key, _) in table.iter().filter(|(key, _)| !known.iter().any(|k| k.name == key.get_ref())) {
            let at = Origin::File(key.span());
            let what = format!("unknown key \"{}\" in {}", key.get_ref(), self.section_name());
            self.problems.add(&at, what).hint(advice(key.get_ref(), &known));
        }
        Some((table, Origin::File(node.span())))
    }

    /// Reports that `node` is not what `T` expects.
    pub(super) fn wrong_type<T: Value>(&mut self, node: Node<'_>) -> &mut super::diagnostics::Diagnostic {
        let found = match node.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) if names_a_secret(self.key()) => "a number".into(),
            _ => found(node),
        };
        let what = format!("{}: expected {}, found {found}", self.key(), T::kind());
        self.problems.add(&Origin::File(node.span()), what)
    }

    fn section_name(&self) -> String {
        let name: Vec<&str> = self.path.iter().map(|(name, _)| *name).collect();
        match self.path.last() {
            None => "the top level of the file".into(),
            Some((_, false)) => format!("[{}]", name.join(".")),
            Some((_, true)) => format!("[[{}]]", name.join(".")),
        }
    }
}

impl<T: Value> Value for Vec<Set<T>> {
    fn kind() -> String {
        match T::section() {
            Some(_) => "a list of tables".into(),
            None => format!("a list: {}", T::kind()),
        }
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": T::schema() })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let Some(last) = reader.path.last_mut() {
            last.1 = T::section().is_some();
        }
        let Some(items) = node.get_ref().as_array() else {
            let hint = match T::section() {
                Some(_) => format!("each one begins with {}", reader.section_name()),
                None => "put it in brackets: [...]".into(),
            };
            reader.wrong_type::<Self>(node).hint(hint);
            return None;
        };
        let read = |item: Node<'_>| {
            let value = T::read(item, reader)?;
            Some(Set { value, origin: Origin::File(item.span()), sound: true })
        };
        let values: Vec<Option<Set<T>>> = items.iter().map(read).collect();
        reader.partial = values.iter().any(Option::is_none);
        Some(values.into_iter().flatten().collect())
    }

    fn show(&self) -> String {
        let items: Vec<String> = self.iter().map(|item| item.value.show()).collect();
        format!("[{}]", items.join(", "))
    }

    fn section() -> Option<SectionDoc> {
        T::section().map(|section| SectionDoc { list: true, ..section })
    }

    fn changes(&self, default: &Self, path: &str, out: &mut Vec<String>) {
        // Sections of a list have no default as a whole; whoever lists changes walks them one by one.
        if T::section().is_none() && self.show() != default.show() {
            out.push(format!("{path} = {}", self.show()));
        }
    }
}

impl<T: Value> Value for Option<T> {
    fn kind() -> String {
        T::kind()
    }

    fn schema() -> Json {
        T::schema()
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(Some)
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "none".into(), T::show)
    }

    fn section() -> Option<SectionDoc> {
        T::section()
    }

    fn changes(&self, default: &Self, path: &str, out: &mut Vec<String>) {
        // A section that may be left out has no default to differ from.
        if T::section().is_none() && self.show() != default.show() {
            out.push(format!("{path} = {}", self.show()));
        }
    }
}

/// A key without a default.
#[derive(Debug, Clone)]
pub(super) struct Required<T>(pub(super) Option<T>);

impl<T: Value> Value for Required<T> {
    const REQUIRED: bool = true;

    fn kind() -> String {
        T::kind()
    }

    fn schema() -> Json {
        T::schema()
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(|value| Self(Some(value)))
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or_else(|| "required".into(), T::show)
    }

    fn changes(&self, _default: &Self, _path: &str, _out: &mut Vec<String>) {
        // It has no default to differ from.
    }
}

/// What to do about an unknown key: the name that was meant, the section it belongs in, or the names there are.
fn advice(typed: &str, known: &[KeyDoc]) -> String {
    if let Some(name) = nearest(typed, known.iter().map(|k| k.name)) {
        return format!("did you mean \"{name}\"?");
    }
    if let Some(section) = super::raw::File::section().and_then(|root| home_of(typed, &root, "")) {
        return format!("\"{typed}\" belongs in {section}");
    }
    let mut hint = String::from("known here: ");
    for (i, key) in known.iter().enumerate() {
        let _ = write!(hint, "{}{}", if i == 0 { "" } else { ", " }, key.name);
    }
    hint
}

fn home_of(name: &str, section: &SectionDoc, path: &str) -> Option<String> {
    for key in &section.keys {
        let Some(inner) = &key.section else { continue };
        let path = joined(path, key.name);
        if inner.keys.iter().any(|k| k.name == name) {
            return Some(if inner.list { format!("[[{path}]]") } else { format!("[{path}]") });
        }
        if let Some(home) = home_of(name, inner, &path) {
            return Some(home);
        }
    }
    None
}

fn found(node: Node<'_>) -> String {
    match node.get_ref() {
        DeValue::String(_) => "text".into(),
        DeValue::Integer(n) if n.radix() == 10 => format!("the integer {}", n.as_str()),
        DeValue::Integer(_) => "an integer".into(),
        DeValue::Float(n) => format!("the number {}", n.as_str()),
        DeValue::Boolean(b) => b.to_string(),
        DeValue::Datetime(_) => "a date or time".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}

/// Declares sections: each key's meaning, kind and default stand here and nowhere else.
macro_rules! sections {
    ($($(#[doc = $about:literal])+ $name:ident {
        $($(#[doc = $doc:literal])+ $key:ident: $kind:ty = $default:expr,)+
    })+) => { $(
        $(#[doc = $about])+
        #[derive(Debug, Clone)]
        pub(in crate::config) struct $name {
            $($(#[doc = $doc])+ pub(in crate::config) $key: Set<$kind>,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: Set::unset($default),)+ }
            }
        }

        impl Value for $name {
            fn kind() -> String {
                "a table".into()
            }

            fn schema() -> Json {
                docs::section_schema(&Self::section_doc())
            }

            fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
                let (table, header) = reader.table::<Self>(node)?;
                let mut section = Self::default();
                $(reader.field((table, &header), stringify!($key), &mut section.$key);)+
                Some(section)
            }

            fn show(&self) -> String {
                "see below".into()
            }

            fn section() -> Option<SectionDoc> {
                Some(Self::section_doc())
            }

            fn changes(&self, default: &Self, path: &str, out: &mut Vec<String>) {
                $(self.$key.value.changes(&default.$key.value, &joined(path, stringify!($key)), out);)+
            }
        }

        impl $name {
            fn section_doc() -> SectionDoc {
                let default = Self::default();
                SectionDoc {
                    about: concat!($($about, "\n"),+),
                    list: false,
                    keys: vec![$(KeyDoc::of(stringify!($key), concat!($($doc),+), &default.$key.value)),+],
                }
            }
        }
    )+ };
}
pub(super) use sections;
