use std::time::Duration;

use super::*;
use crate::plan::{Credential, PoolPlan};
use crate::test_plan::pool_plan;

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn credentials(names: &[&str]) -> Credentials {
    let credentials = names.iter().map(|name| Credential((*name).into())).collect();
    Credentials::new(&PoolPlan { credentials, ..pool_plan() })
}

fn name(chosen: &Chosen) -> &str {
    chosen.credential.as_ref().map_or("none", |credential| &credential.0)
}

fn said(status: u16, retry_after: Option<u32>) -> Option<Said> {
    Some(Said { status, retry_after })
}

/// One request at this second, answered with `statuses` in order: who was asked, and the status that is relayed.
fn ask(credentials: &Credentials, second: u64, statuses: &[u16]) -> (String, Option<u16>) {
    let mut trial = Trial::new(credentials);
    let mut chosen = credentials.choose(at(second));
    let mut asked = String::new();
    for status in statuses {
        asked.push_str(name(&chosen));
        match trial.judge(&chosen, said(*status, None), *status, at(second)) {
            Judged::Again(other) => chosen = other,
            Judged::Answered(status) => return (asked, Some(status)),
            Judged::Refused => return (asked, None),
        }
    }
    panic!("{asked} is not enough: {} would be next", name(&chosen));
}

fn turns(credentials: &Credentials, second: u64, count: usize) -> String {
    (0..count).map(|_| name(&credentials.choose(at(second))).to_owned()).collect()
}

#[test]
fn credentials_take_turns_and_a_refused_one_rests() {
    for refusal in [401, 403, 429] {
        let three = credentials(&["a", "b", "c"]);
        assert_eq!(turns(&three, 0, 4), "abca");
        assert_eq!(ask(&three, 0, &[refusal, 200]), ("bc".to_owned(), Some(200)), "{refusal}");
        assert!(!turns(&three, 1, 6).contains('b'), "{refusal}");
        assert!(turns(&three, 31, 3).contains('b'), "{refusal}");
    }
}

#[test]
fn one_whose_share_is_used_up_rests_for_as_long_as_it_is_told_within_bounds() {
    let rows = [(None, 30), (Some(0), 1), (Some(1), 1), (Some(7), 7), (Some(600), 600), (Some(86_400), 600)];
    for (retry_after, rests) in rows {
        let two = credentials(&["a", "b"]);
        let first = two.choose(at(0));
        let judged = Trial::new(&two).judge(&first, said(429, retry_after), 429, at(0));
        assert!(matches!(judged, Judged::Again(other) if name(&other) == "b"), "{retry_after:?}");
        assert_eq!(turns(&two, rests - 1, 2), "bb", "{retry_after:?}");
        assert!(turns(&two, rests, 2).contains('a'), "{retry_after:?}");
    }
}

#[test]
fn where_all_rest_one_is_used_all_the_same_and_once() {
    let two = credentials(&["a", "b"]);
    assert_eq!(ask(&two, 0, &[401, 401]), ("ab".to_owned(), None));
    assert_eq!(ask(&two, 1, &[401]).1, None);
    assert_eq!(ask(&two, 2, &[200]).1, Some(200));
}

/// One that another request left awake in its turn is not asked twice by this one.
#[test]
fn no_request_asks_the_same_credential_twice() {
    let two = credentials(&["a", "b"]);
    let mut trial = Trial::new(&two);
    let first = two.choose(at(0));
    turns(&two, 0, 1);
    let Judged::Again(second) = trial.judge(&first, said(403, None), 403, at(0)) else {
        panic!("there is another")
    };
    assert_eq!((name(&first), name(&second)), ("a", "b"));
    assert!(matches!(trial.judge(&second, said(403, None), 403, at(0)), Judged::Answered(403)));
}

#[test]
fn a_pool_without_a_key_of_ours_relays_what_it_is_told() {
    let none = credentials(&[]);
    for status in [401, 403, 429, 200] {
        assert_eq!(ask(&none, 0, &[status]), ("none".to_owned(), Some(status)));
    }
    for plan in [
        PoolPlan { hosted: true, ..pool_plan() },
        PoolPlan { headers: vec![("x-api-key".into(), Credential("k".into()))], ..pool_plan() },
    ] {
        assert_eq!(ask(&Credentials::new(&plan), 0, &[401]), ("none".to_owned(), None));
    }
}
