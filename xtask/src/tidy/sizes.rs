//! A budget for the tail: the longest file and function decide whether a stranger can follow.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::finding::Finding;
use super::source::{Repository, RustFile};

/// Lines before `#[cfg(test)]`: the aim, and the most that a written exception may have.
const FILE: (usize, usize) = (400, 700);
/// Lines from `fn` to the closing brace: the aim (a warning), and the most.
const FUNCTION: (usize, usize) = (60, 100);
const TRAIT_METHODS: usize = 8;
/// Lines of tests inside a source file.
const INLINE_TESTS: usize = 150;

/// Files between the aim and the most, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Measures every Rust file.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.rust.iter().flat_map(measure).collect()
}

fn measure(file: &RustFile) -> Vec<Finding> {
    let mut sizes = Sizes { file, findings: Vec::new() };
    sizes.file_length();
    sizes.inline_tests();
    sizes.visit_file(&file.syntax);
    sizes.findings
}

struct Sizes<'a> {
    file: &'a RustFile,
    findings: Vec<Finding>,
}

impl Sizes<'_> {
    fn file_length(&mut self) {
        let path = self.file.path.as_str();
        let lines = match self.file.test_spans.first() {
            Some((first, _)) => first - 1,
            None => self.file.text.lines().count(),
        };
        let excused = LONG_FILES.iter().any(|(listed, _)| *listed == path);
        let mend = "split it by idea; a reason goes into LONG_FILES in xtask/src/tidy/sizes.rs";
        if lines > FILE.1 || (lines > FILE.0 && !excused && !self.file.is_test_file()) {
            let what = format!("{lines} lines before its tests, at most {}", FILE.0);
            self.findings.push(Finding::error(path, lines, what, mend));
        } else if lines > FILE.0 && !excused {
            let what = format!("{lines} lines of tests, better below {}", FILE.0);
            self.findings.push(Finding::warning(path, lines, what, "split it by rule"));
        } else if lines <= FILE.0 && excused {
            let what = "listed as long, but is not".to_owned();
            self.findings.push(Finding::error(path, 1, what, "take it out of LONG_FILES"));
        }
    }

    fn inline_tests(&mut self) {
        for (first, last) in &self.file.test_spans {
            let lines = last - first + 1;
            if lines > INLINE_TESTS {
                let what = format!("{lines} lines of tests in the file, at most {INLINE_TESTS}");
                let mend = "move them to their own file (`mod tests;`)";
                self.findings.push(Finding::error(&self.file.path, *first, what, mend));
            }
        }
    }

    fn function(&mut self, name: &syn::Ident, start: proc_macro2::Span, block: &syn::Block) {
        let first = start.start().line;
        let lines = block.brace_token.span.close().end().line - first + 1;
        let what =
            format!("fn {name} has {lines} lines, better below {} and at most {}", FUNCTION.0, FUNCTION.1);
        let mend = "name its parts; a table of test cases can be a const";
        if lines > FUNCTION.1 {
            self.findings.push(Finding::error(&self.file.path, first, what, mend));
        } else if lines > FUNCTION.0 && !self.file.is_test_line(first) {
            self.findings.push(Finding::warning(&self.file.path, first, what, mend));
        }
    }
}

impl<'ast> Visit<'ast> for Sizes<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig.ident, item.sig.fn_token.span(), &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig.ident, item.sig.fn_token.span(), &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let methods = item.items.iter().filter(|part| matches!(part, syn::TraitItem::Fn(_))).count();
        if methods > TRAIT_METHODS {
            let what = format!("trait {} has {methods} methods, at most {TRAIT_METHODS}", item.ident);
            let line = item.ident.span().start().line;
            self.findings.push(Finding::error(
                &self.file.path,
                line,
                what,
                "split the trait by who calls it",
            ));
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig.ident, item.sig.fn_token.span(), block);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Severity;
    use super::super::source::RustFile;
    use super::measure;

    fn levels(path: &str, text: &str) -> Vec<Severity> {
        let file = RustFile::parse(path, text).expect("it parses");
        measure(&file).into_iter().map(|finding| finding.severity).collect()
    }

    fn function_of(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2))
    }

    fn trait_of(methods: usize) -> String {
        let methods: Vec<String> = (0..methods).map(|n| format!("fn m{n}(&self);")).collect();
        format!("trait T {{ {} }}", methods.join(" "))
    }

    #[test]
    fn budgets_hold_at_their_edges() {
        use Severity::{Error, Warning};
        let product = "crates/x/src/a.rs";
        let test = "crates/x/tests/a.rs";
        let inline =
            |lines: usize| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// line\n".repeat(lines - 3));
        let cases: Vec<(&str, &str, String, Vec<Severity>)> = vec![
            ("a file of 400 lines", product, "// line\n".repeat(400), vec![]),
            ("a file of 401 lines", product, "// line\n".repeat(401), vec![Error]),
            ("a test file of 401 lines", test, "// line\n".repeat(401), vec![Warning]),
            ("a test file of 701 lines", test, "// line\n".repeat(701), vec![Error]),
            ("tests do not count", product, "// line\n".repeat(400) + &inline(100), vec![]),
            ("150 lines of tests", product, inline(150), vec![]),
            ("151 lines of tests", product, inline(151), vec![Error]),
            ("a function of 60 lines", product, function_of(60), vec![]),
            ("a function of 61 lines", product, function_of(61), vec![Warning]),
            ("a test function of 61 lines", test, function_of(61), vec![]),
            ("a function of 101 lines", test, function_of(101), vec![Error]),
            ("a method of 101 lines", product, format!("impl X {{ {} }}", function_of(101)), vec![Error]),
            ("8 methods", product, trait_of(8), vec![]),
            ("9 methods", product, trait_of(9), vec![Error]),
        ];
        for (name, path, text, expected) in cases {
            assert_eq!(levels(path, &text), expected, "{name}");
        }
    }
}
