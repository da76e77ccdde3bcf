//! `discover`: what each source needs, and what means nothing to it.

use sluicegate::config::Overrides;

use super::{findings, load};

fn with(discover: &str) -> String {
    format!("[[pools]]\nname = \"p\"\ndiscover = {discover}\n")
}

#[test]
fn every_mistake_has_its_place_and_names_what_is_meant() {
    for (discover, found) in [
        ("16", "3:12: discover: expected a table, found the integer 16"),
        ("{ name = \"a\" }", "3:12: the key \"source\" is missing in [pools.discover]"),
        ("{ source = \"etcd\" }", "3:23: source: unknown source \"etcd\""),
        ("{ source = \"kubernetes\" }", "3:23: source: \"kubernetes\" is not supported yet in this version"),
        ("{ source = \"file\" }", "3:12: discover: source = \"file\" needs \"path\""),
        ("{ source = \"dns\" }", "3:12: discover: source = \"dns\" needs name and port, or srv"),
        ("{ source = \"dns\", name = \"a\" }", "3:12: discover: source = \"dns\" needs \"port\""),
        ("{ source = \"dns\", name = \"a\", port = 70000 }", "3:49: discover: that is not a port"),
        ("{ source = \"dns\", name = \"a\", srv = \"b\" }", "3:48: discover: both \"name\" and \"srv\""),
        (
            "{ source = \"dns\", srv = \"b\", port = 1 }",
            "3:48: discover: SRV records hold the ports themselves",
        ),
        ("{ source = \"consul\", service = \"s\" }", "3:12: discover: source = \"consul\" needs \"url\""),
        (
            "{ source = \"file\", path = \"p\", url = \"http://a\" }",
            "3:49: discover: \"url\" means nothing with source = \"file\"",
        ),
    ] {
        assert_eq!(findings(&with(discover)), [found], "{discover}");
    }
}

#[test]
fn the_command_lines_replicas_take_the_place_of_a_source() {
    let text = with("{ source = \"file\", path = \"/r\" }");
    let found = load(&text, &Overrides::default()).expect("it loads");
    assert!(found.plan.pools[0].replicas.is_empty() && found.discover[0].pool == 0);
    assert!(found.summary().contains("and those of file /r"), "{}", found.summary());
    let flags = Overrides { replicas: vec!["http://a:1".into()], ..Overrides::default() };
    let found = load(&text, &flags).expect("it loads");
    assert!(found.plan.pools[0].replicas.len() == 1 && found.discover.is_empty());
}
