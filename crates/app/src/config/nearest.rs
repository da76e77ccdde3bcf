//! The known name that a mistyped one probably means.

/// The name closest to `typed`, if it is close enough to be meant: of the longer one at most a third of the letters
/// differ, so a name of one letter never stands for another one.
pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    known
        .into_iter()
        .map(|name| (distance(&typed, &name.to_lowercase()), name))
        .filter(|(d, name)| *d <= name.chars().count().max(typed.chars().count()) / 3)
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// Edits from `a` to `b`, a swap of two neighbours counting as one (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let same = a[i - 1] == b[j - 1];
            let mut best = (above[j - 1] + usize::from(!same)).min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_typing_slip_finds_its_name_and_another_word_does_not() {
        let known = ["address", "threads", "open", "max_body", "drain_timeout"];
        for (typed, meant) in [
            ("adress", Some("address")),
            ("addresss", Some("address")),
            ("thraeds", Some("threads")),
            ("Threads", Some("threads")),
            ("max-body", Some("max_body")),
            ("opne", Some("open")),
            ("drain_timout", Some("drain_timeout")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
        for (typed, meant) in
            [("b", None), ("a", Some("A")), ("gp", Some("gpu")), ("gx", None), ("gpx", Some("gpu"))]
        {
            assert_eq!(nearest(typed, ["A", "gpu"]), meant, "{typed}");
        }
    }
}
