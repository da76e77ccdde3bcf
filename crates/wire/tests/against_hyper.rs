//! Our framing against hyper's on the same bytes. hyper shares `httparse` with us for the syntax of a head, and
//! nothing for what the fields mean, where a body ends or what follows it; what `httparse` lets pass is judged by
//! hand in the table.

#[path = "against_hyper/peers.rs"]
mod peers;
#[path = "against_hyper/requests.rs"]
mod requests;
#[path = "against_hyper/responses.rs"]
mod responses;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use peers::{Ending, Request, requests_by_hyper, requests_by_us, response_by_hyper, response_by_us};
use requests::Verdict;

fn text(bytes: &[u8]) -> String {
    bytes.iter().take(300).map(|byte| byte.escape_ascii().to_string()).collect()
}

/// Where we read a request, hyper reads the same one; where we stop without refusing, it stops too.
fn compare(bytes: &[u8]) -> Result<(Vec<Request>, Ending, usize), String> {
    let (ours, ending) = requests_by_us(bytes);
    let theirs = requests_by_hyper(bytes);
    if !theirs.starts_with(&ours) {
        return Err(format!("we read {ours:?}\nhyper reads {theirs:?}\nin {}", text(bytes)));
    }
    if !matches!(ending, Ending::Refused(_)) && theirs.len() > ours.len() {
        return Err(format!(
            "we stop after {ours:?} ({ending:?})\nhyper reads {theirs:?}\nin {}",
            text(bytes)
        ));
    }
    Ok((ours, ending, theirs.len()))
}

#[test]
fn the_table_of_tricky_requests_is_judged_as_written() {
    let mut wrong = Vec::new();
    for (bytes, verdict) in requests::cases() {
        let (ours, ending, theirs) = compare(&bytes).unwrap_or_else(|difference| panic!("{difference}"));
        let refused = matches!(ending, Ending::Refused(_));
        let as_written = match verdict {
            Verdict::Serve(count) => (ours.len(), theirs, refused) == (count, count, false),
            Verdict::Refuse(count) => (ours.len(), theirs, refused) == (count, count, true),
            // Where hyper refuses as well, the reason is no difference.
            Verdict::Stricter(count, why) => {
                ours.len() == count && refused && theirs > count && !why.is_empty()
            }
        };
        if !as_written {
            wrong.push(format!(
                "{verdict:?}: we read {}, then {ending:?}; hyper {theirs}: {}",
                ours.len(),
                text(&bytes)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_of_responses_is_read_as_hyper_reads_it() {
    for (bytes, expected) in responses::cases() {
        let ours = response_by_us(&bytes);
        assert_eq!(
            ours.as_ref().map(|(status, body)| (*status, body.as_slice())),
            expected,
            "{}",
            text(&bytes)
        );
        if let Some(ours) = ours {
            assert_eq!(Some(ours), response_by_hyper(&bytes), "{}", text(&bytes));
        }
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Replace(prop::sample::Index, u8),
    Insert(prop::sample::Index, &'static str),
    Remove(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<prop::sample::Index>;
    let byte = prop_oneof![prop::sample::select(b"\r\n\t \0:;,=\"\\0159afxX/?#%".to_vec()), any::<u8>()];
    let piece = prop::sample::select(vec![
        "\r\n",
        "\n",
        "\r",
        " ",
        "\t",
        ":",
        ",",
        ";",
        "\"",
        "\0",
        "0",
        "1",
        "\r\n ",
        "\r\n\r\n",
        "0\r\n\r\n",
        "Host: a\r\n",
        "Content-Length: 5\r\n",
        "Content-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "chunked",
        "HTTP/1.1",
        "HTTP/1.0",
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "5\r\nhello\r\n",
    ]);
    prop_oneof![
        (at(), byte).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (at(), piece).prop_map(|(at, piece)| Mutation::Insert(at, piece)),
        (at(), 1_usize..12).prop_map(|(at, len)| Mutation::Remove(at, len)),
        (at(), 1_usize..40).prop_map(|(at, len)| Mutation::Repeat(at, len)),
    ]
}

fn mutate(mut bytes: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for mutation in mutations {
        let place = |at: &prop::sample::Index| at.index(bytes.len() + 1);
        match mutation {
            Mutation::Replace(at, byte) => {
                let at = place(at);
                if let Some(slot) = bytes.get_mut(at) {
                    *slot = *byte;
                }
            }
            Mutation::Insert(at, piece) => {
                let at = place(at);
                bytes.splice(at..at, piece.bytes());
            }
            Mutation::Remove(at, len) => {
                let at = place(at);
                bytes.drain(at..(at + len).min(bytes.len()));
            }
            Mutation::Repeat(at, len) => {
                let at = place(at);
                let end = (at + len).min(bytes.len());
                let again = bytes[at..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
    bytes
}

/// Short cases only: a mutation somewhere in 64 KiB of filling finds nothing.
fn short(cases: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    cases.into_iter().filter(|bytes| bytes.len() < 1000).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0x51_0c_e6_a7),
        ..ProptestConfig::default()
    })]

    #[test]
    fn mutated_requests_are_never_read_in_another_way(
        first in prop::sample::select(short(requests::cases().into_iter().map(|case| case.0))),
        second in prop::sample::select(short(requests::cases().into_iter().map(|case| case.0))),
        mutations in prop::collection::vec(mutation(), 1..4),
    ) {
        let bytes = mutate([first, second].concat(), &mutations);
        prop_assert!(compare(&bytes).is_ok(), "{:?}", compare(&bytes));
    }

    #[test]
    fn mutated_responses_are_never_read_in_another_way(
        bytes in prop::sample::select(short(responses::cases().into_iter().map(|case| case.0))),
        mutations in prop::collection::vec(mutation(), 1..4),
    ) {
        let bytes = mutate(bytes, &mutations);
        if let Some(ours) = response_by_us(&bytes) {
            prop_assert_eq!(Some(ours), response_by_hyper(&bytes), "{}", text(&bytes));
        }
    }
}
