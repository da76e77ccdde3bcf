use super::*;
use crate::peek::{Shape, peek};

fn blocks_of(body: &str, shape: Shape, salt: u64) -> (Vec<u64>, u64) {
    let peek = peek(body.as_bytes(), shape, &[]).unwrap();
    let mut blocks = vec![1, 2, 3];
    let bytes = prompt_blocks(body.as_bytes(), &peek, salt, &mut blocks);
    (blocks, bytes)
}

fn chat(turns: &[String]) -> Vec<u64> {
    blocks_of(&format!(r#"{{"model":"m","messages":[{}],"stream":true}}"#, turns.join(",")), Shape::Chat, 7).0
}

fn turn(role: &str, text: &str) -> String {
    format!(r#"{{"role":"{role}","content":"{text}"}}"#)
}

fn words(n: usize, word: &str) -> String {
    word.repeat(n / word.len())
}

#[test]
fn the_next_turn_begins_with_all_pieces_of_the_one_before() {
    let first = [turn("system", &words(3000, "rules ")), turn("user", &words(2500, "question "))];
    let mut second = first.to_vec();
    second.extend([turn("assistant", &words(1800, "answer ")), turn("user", "and then?")]);
    let (first, second) = (chat(&first), chat(&second));
    assert_eq!((first.len(), second.len()), (5, 7));
    assert_eq!(first, second[..5]);
}

#[test]
fn prompts_part_where_their_texts_do() {
    let system = turn("system", &words(3000, "rules "));
    let a = chat(&[system.clone(), turn("user", &words(4000, "apples "))]);
    let b = chat(&[system, turn("user", &words(4000, "pears "))]);
    let alike = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    assert_eq!((alike, a.len(), b.len()), (2, 6, 6));
    assert!(a[2..].iter().all(|hash| !b.contains(hash)), "equal hashes mean an equal whole beginning");
}

#[test]
fn another_model_has_another_cache() {
    let body = format!(r#"{{"prompt":"{}"}}"#, words(3000, "text "));
    let (one, bytes) = blocks_of(&body, Shape::Completions, 1);
    assert_eq!((one.len(), bytes), (2, 3000));
    assert!(blocks_of(&body, Shape::Completions, 2).0.iter().all(|hash| !one.contains(hash)));
}

#[test]
fn tools_and_the_system_prompt_come_first_wherever_they_stand_in_the_body() {
    let (tools, system, user) = (words(1500, r#"{"a":1},"#), words(1600, "rules "), words(2000, "question "));
    let tools = format!("[{tools}{{}}]");
    let turns = format!("[{}]", turn("user", &user));
    let bodies = [
        format!(r#"{{"tools":{tools},"system":"{system}","messages":{turns}}}"#),
        format!(r#"{{"messages" : {turns} ,"max_tokens":5,"system":"{system}","tools": {tools}}}"#),
    ];
    let read = bodies.map(|body| blocks_of(&body, Shape::Messages, 1));
    assert_eq!(read[0], read[1]);
    let text: String = [&tools[1..tools.len() - 1], &system, &turns[1..turns.len() - 1]].concat();
    let mut expected = Vec::new();
    let mut chain = Chain { hash: 1, blocks: &mut expected };
    text.as_bytes().as_chunks().0.iter().for_each(|piece| chain.push(std::slice::from_ref(piece)));
    assert_eq!(read[0], (expected, text.len() as u64), "pieces run across the regions' borders");
}

#[test]
fn every_shape_has_its_prompt() {
    let text = words(2100, "text ");
    let turns = format!("[{}]", turn("user", &text));
    for (shape, body) in [
        (Shape::Chat, format!(r#"{{"messages":{turns}}}"#)),
        (Shape::Messages, format!(r#"{{"messages":{turns}}}"#)),
        (Shape::Completions, format!(r#"{{"prompt":"{text}"}}"#)),
        (Shape::Completions, format!(r#"{{"prompt":["{text}"]}}"#)),
        (Shape::Responses, format!(r#"{{"instructions":"{text}"}}"#)),
        (Shape::Responses, format!(r#"{{"input":"{text}"}}"#)),
        (Shape::Responses, format!(r#"{{"input":{turns}}}"#)),
        (Shape::Other, format!(r#"{{"prompt":"{text}"}}"#)),
        (Shape::Other, format!(r#"{{"messages":{turns}}}"#)),
    ] {
        assert_eq!(blocks_of(&body, shape, 1).0.len(), 2, "{body:.40}");
    }
    for (shape, body) in [
        (Shape::Chat, r#"{"model":"m"}"#),
        (Shape::Chat, r#"{"messages":[]}"#),
        (Shape::Chat, r#"{"messages":null}"#),
        (Shape::Completions, r#"{"prompt":""}"#),
        (Shape::Chat, r#"{"messages":[{"role":"user","content":"hi"}]}"#),
    ] {
        assert!(blocks_of(body, shape, 1).0.is_empty(), "{body}");
    }
}

#[test]
fn no_more_than_the_first_mebibyte_is_hashed() {
    let long = "x".repeat(BLOCK_BYTES * (MAX_BLOCKS + 10));
    let (blocks, bytes) = blocks_of(&format!(r#"{{"prompt":"{long}"}}"#), Shape::Completions, 1);
    assert_eq!((blocks.len(), bytes), (MAX_BLOCKS, long.len() as u64));
}

/// In its head one other byte is another prompt. Behind it another length is, and so is a text that is another one.
#[test]
fn every_byte_of_the_head_counts_and_behind_it_every_length() {
    let text: Vec<u8> = (0..40 * BLOCK_BYTES).map(|at| b'a' + (at * at % 25) as u8).collect();
    let hashes = |text: &[u8]| {
        let text = std::str::from_utf8(text).unwrap();
        blocks_of(&format!(r#"{{"prompt":"{text}"}}"#), Shape::Completions, 1).0
    };
    let alike = |one: &[u64], other: &[u64]| one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let all = hashes(&text);
    for at in (0..WHOLE * BLOCK_BYTES).step_by(97) {
        let mut other = text.clone();
        other[at] = b'z';
        assert_eq!(alike(&all, &hashes(&other)), at / BLOCK_BYTES, "byte {at}");
    }
    for at in (WHOLE * BLOCK_BYTES..text.len()).step_by(977) {
        let piece = at / BLOCK_BYTES;
        let mut longer = text.clone();
        longer.insert(at, b'z');
        // The byte that has moved into the end of the piece is in its sample.
        assert_eq!(alike(&all, &hashes(&longer)), piece, "one byte more at {at}");
        let mut other = text.clone();
        other[at..(at + 200).min(text.len())].fill(b'z');
        assert!((piece..=piece + 1).contains(&alike(&all, &hashes(&other))), "another text from {at}");
    }
    let mut sampled = text.clone();
    sampled[20 * BLOCK_BYTES + SAMPLE[3]] = b'z';
    assert_eq!(alike(&all, &hashes(&sampled)), 20);
}

/// The chains of many prompts that differ little: as different as chance.
#[test]
fn hashes_do_not_meet() {
    let mut seen = std::collections::HashSet::new();
    for prompt in 0..2000 {
        let text = format!("{prompt:>8}").repeat(20 * BLOCK_BYTES / 8);
        let body = format!(r#"{{"prompt":"{text}"}}"#);
        let (blocks, _) = blocks_of(&body, Shape::Completions, 1);
        assert!(blocks.iter().all(|hash| seen.insert(*hash)), "prompt {prompt}");
    }
}
