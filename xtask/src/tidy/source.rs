//! The repository as the rules see it: Rust files as tokens and syntax, documents as text.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;

use super::finding::Finding;

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &[".git", "target", "artifacts", "coverage", "run", "node_modules", "__pycache__"];

/// Files that are read as text for links and paths.
const TEXT: &[&str] =
    &["md", "toml", "py", "sh", "yml", "yaml", "json", "html", "js", "css", "service", "conf"];

/// Everything the rules look at.
pub(super) struct Repository {
    pub(super) root: std::path::PathBuf,
    pub(super) rust: Vec<RustFile>,
    pub(super) texts: Vec<TextFile>,
    /// Every file's path from the root, with `/`.
    pub(super) paths: Vec<String>,
    /// Files that do not parse.
    pub(super) unreadable: Vec<Finding>,
}

/// A file that is not Rust.
pub(super) struct TextFile {
    pub(super) path: String,
    pub(super) text: String,
}

/// One Rust file.
pub(super) struct RustFile {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) syntax: syn::File,
    /// Comments are gone; a literal is one token; what stands inside a macro call counts.
    pub(super) tokens: Vec<Token>,
    /// First and last lines of items under `#[cfg(test)]`.
    pub(super) test_spans: Vec<(usize, usize)>,
}

/// A word, sign or literal.
pub(super) struct Token {
    pub(super) text: String,
    /// From 1.
    pub(super) line: usize,
}

impl Repository {
    /// Reads every file below the root that is ours.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut paths = Vec::new();
        walk(root, root, &mut paths)?;
        paths.sort();
        let (mut rust, mut texts, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
        for path in &paths {
            let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
            let is_text = TEXT.contains(&extension) || path.starts_with(".ci/");
            if path.starts_with("fuzz/corpus/") || (extension != "rs" && !is_text) {
                continue;
            }
            let bytes = fs::read(root.join(path)).with_context(|| format!("cannot read {path}"))?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if extension != "rs" {
                texts.push(TextFile { path: path.clone(), text });
                continue;
            }
            match RustFile::parse(path, &text) {
                Ok(file) => rust.push(file),
                Err(error) => {
                    let line = error.span().start().line;
                    unreadable.push(Finding::error(path, line, error.to_string(), "make it parse"));
                }
            }
        }
        Ok(Self { root: root.to_path_buf(), rust, texts, paths, unreadable })
    }

    /// A repository made of Rust texts, for tests of rules.
    #[cfg(test)]
    pub(super) fn of_rust(files: &[(&str, &str)]) -> Self {
        let rust = files.iter().map(|(path, text)| RustFile::parse(path, text).expect("it parses")).collect();
        let paths = files.iter().map(|(path, _)| (*path).to_owned()).collect();
        Self { root: "nowhere".into(), rust, texts: Vec::new(), paths, unreadable: Vec::new() }
    }
}

impl RustFile {
    pub(super) fn parse(path: &str, text: &str) -> syn::Result<Self> {
        let stream: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
            syn::Error::new(error.span(), format!("it does not parse: {error}"))
        })?;
        let mut tokens = Vec::new();
        flatten(stream.clone(), &mut tokens);
        let syntax = syn::parse2::<syn::File>(stream)?;
        let test_spans = test_spans(&syntax);
        Ok(Self { path: path.to_owned(), text: text.to_owned(), syntax, tokens, test_spans })
    }

    /// The whole file exists for tests or measurements, not for the product.
    pub(super) fn is_test_file(&self) -> bool {
        let folder_or_name =
            |part: &str| matches!(part, "tests" | "benches" | "examples" | "testkit" | "fuzz");
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        stem.split('/').any(folder_or_name) || stem.ends_with("_tests") || stem.ends_with("_test")
    }

    /// The line belongs to test code.
    pub(super) fn is_test_line(&self, line: usize) -> bool {
        self.is_test_file() || self.test_spans.iter().any(|(first, last)| (*first..=*last).contains(&line))
    }

    /// Lines at which a sequence of tokens stands, written with spaces: `Instant :: now`.
    pub(super) fn lines_of(&self, sequence: &str) -> Vec<usize> {
        let wanted: Vec<&str> = sequence.split(' ').collect();
        self.tokens
            .windows(wanted.len())
            .filter(|window| window.iter().zip(&wanted).all(|(token, word)| token.text == *word))
            .map(|window| window[0].line)
            .collect()
    }

    /// Names of the functions that carry a `test` attribute, those inside macro calls included.
    pub(super) fn test_names(&self) -> Vec<(&str, usize)> {
        let mut names = Vec::new();
        let mut marked = false;
        let mut index = 0;
        while let Some(token) = self.tokens.get(index) {
            let next = self.tokens.get(index + 1);
            match (token.text.as_str(), next) {
                ("#", Some(open)) if open.text == "[" => {
                    let (end, is_test) = self.attribute(index + 2);
                    marked |= is_test;
                    index = end;
                }
                ("fn", Some(name)) if std::mem::take(&mut marked) => {
                    names.push((name.text.as_str(), name.line))
                }
                (";" | "}", _) => marked = false,
                _ => {}
            }
            index += 1;
        }
        names
    }

    /// From the first token of an attribute: where it ends, and whether it is `test` or `x::test`.
    fn attribute(&self, first: usize) -> (usize, bool) {
        let (mut depth, mut index, mut path_ended, mut last) = (1, first, false, "");
        while let Some(token) = self.tokens.get(index) {
            match token.text.as_str() {
                "[" => depth += 1,
                "]" => depth -= 1,
                "(" | "=" => path_ended = true,
                word if !path_ended => last = word,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            index += 1;
        }
        (index, last == "test")
    }
}

fn walk(root: &Path, folder: &Path, paths: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name();
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            if !SKIPPED.iter().any(|skipped| name == *skipped) {
                walk(root, &path, paths)?;
            }
        } else if let Ok(short) = path.strip_prefix(root) {
            paths.push(short.to_string_lossy().replace('\\', "/"));
        }
    }
    Ok(())
}

/// `::` becomes one token, brackets are tokens, everything else is as written.
fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => ("(", ")"),
                    proc_macro2::Delimiter::Brace => ("{", "}"),
                    proc_macro2::Delimiter::Bracket => ("[", "]"),
                    proc_macro2::Delimiter::None => ("", ""),
                };
                tokens.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.to_owned(), line: group.span_close().start().line });
            }
            TokenTree::Punct(sign) => match tokens.last_mut() {
                Some(last) if sign.as_char() == ':' && last.text == ":" => last.text.push(':'),
                _ => tokens.push(Token { text: sign.as_char().to_string(), line }),
            },
            other => tokens.push(Token { text: other.to_string(), line }),
        }
    }
}

fn test_spans(syntax: &syn::File) -> Vec<(usize, usize)> {
    fn is_test(attribute: &syn::Attribute) -> bool {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && list.tokens.clone().into_iter().any(|tree| tree.to_string() == "test")
    }
    struct Spans(Vec<(usize, usize)>);
    impl<'ast> syn::visit::Visit<'ast> for Spans {
        fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
        fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
            self.note(&item.attrs, item.span());
            syn::visit::visit_item_mod(self, item);
        }
        fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
            self.note(&item.attrs, item.span());
        }
        fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
            self.note(&item.attrs, item.span());
        }
        fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
            self.note(&item.attrs, item.span());
            syn::visit::visit_item_impl(self, item);
        }
    }
    impl Spans {
        fn note(&mut self, attributes: &[syn::Attribute], span: proc_macro2::Span) {
            if attributes.iter().any(is_test) {
                self.0.push((span.start().line, span.end().line));
            }
        }
    }
    let mut spans = Spans(Vec::new());
    syn::visit::Visit::visit_file(&mut spans, syntax);
    spans.0
}

#[cfg(test)]
mod tests {
    use super::RustFile;

    #[test]
    fn sequences_are_found_inside_macros_and_not_in_comments_or_strings() {
        let text =
            "fn f() {\n // Instant::now()\n let s = \"Instant::now()\";\n assert!(Instant::now() > x);\n}";
        let file = RustFile::parse("a.rs", text).expect("it parses");
        assert_eq!(file.lines_of("Instant :: now"), [4]);
    }

    #[test]
    fn tests_are_known_by_their_attribute() {
        let text = "
            #[test] fn plain() {}
            #[tokio::test(start_paused = true)] #[allow(x)] async fn with_runtime() {}
            proptest! { #[test] fn inside_a_macro(x in 0..3) {} }
            #[cfg(test)] mod tests { fn not_a_test() {} }
            #[test_case] fn neither() {}
            fn nor_this() {}
        ";
        let file = RustFile::parse("a.rs", text).expect("it parses");
        let names: Vec<_> = file.test_names().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["plain", "with_runtime", "inside_a_macro"]);
    }

    #[test]
    fn test_lines_are_those_under_cfg_test_and_whole_test_files() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}";
        let file = RustFile::parse("crates/x/src/a.rs", text).expect("it parses");
        let lines: Vec<_> = (1..=6).filter(|line| file.is_test_line(*line)).collect();
        assert_eq!(lines, [2, 3, 4, 5]);
        for path in ["crates/x/tests/a.rs", "crates/x/src/a/tests.rs", "crates/testkit/src/lib.rs"] {
            assert!(RustFile::parse(path, text).expect("it parses").is_test_line(1), "{path}");
        }
    }
}
