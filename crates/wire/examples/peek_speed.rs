//! Bytes per second of `peek` on prompt-like bodies, and nanoseconds per streamed event of `Observer`.
//!
//! `cargo run --release --example peek_speed -p sluicegate-wire`

use std::hint::black_box;
use std::time::Instant;

use sluicegate_wire::{AnswerScan, Observer, Shape, StreamKind, peek, prompt_blocks};

/// The fastest of several rounds: a shared machine only ever adds time.
fn best_of<T>(mut work: impl FnMut() -> T) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..30 {
        let start = Instant::now();
        black_box(work());
        best = best.min(start.elapsed().as_secs_f64());
    }
    best
}

fn chat(text: &str, tail: &str) -> String {
    format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}]{tail},"stream":true,"model":"m1"}}"#)
}

fn main() {
    let plain = "The quick brown fox jumps over the lazy dog. ".repeat(2300);
    let escaped = r#"fn main() { let a = 1; println(\"hi\");\n"#.repeat(2500);
    let schema =
        r#"{"type":"object","properties":{"path":{"type":"string","description":"a file"}}},"#.repeat(1200);
    let tools = format!(r#","tools":[{schema}0]"#);
    let small =
        chat("Say hello in five words, and no more than that.", r#","temperature":0.7,"max_tokens":64"#);
    let bodies = [
        ("100 KB plain text", chat(&plain, "")),
        ("100 KB, an escape every 20 to 40 bytes", chat(&escaped, "")),
        ("100 KB of tool schema", chat("hi", &tools)),
        ("small", small),
    ];
    for (name, body) in &bodies {
        let rounds = (4_000_000 / body.len()).max(1);
        let time = best_of(|| {
            for _ in 0..rounds {
                black_box(peek(black_box(body.as_bytes()), Shape::Chat, &["conversation_id"]).is_ok());
            }
        });
        let bytes = (rounds * body.len()) as f64;
        println!("peek, {name}: {:.2} GB/s, {:.0} ns a body", bytes / time / 1e9, time / rounds as f64 * 1e9);
        let peek = peek(body.as_bytes(), Shape::Chat, &[]).expect("a body");
        let mut blocks = Vec::new();
        let time = best_of(|| {
            for _ in 0..rounds {
                black_box(prompt_blocks(black_box(body.as_bytes()), &peek, 1, &mut blocks));
            }
        });
        println!(
            "prompt blocks, {name}: {:.0} ns a body, {} of them",
            time / rounds as f64 * 1e9,
            blocks.len()
        );
    }

    let event = concat!(
        r#"data: {"id":"chatcmpl-b3d9f136f5490f22","object":"chat.completion.chunk","created":1795989628,"#,
        r#""model":"tiny","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"#,
        r#""finish_reason":null,"token_ids":null}]}"#,
        "\n\n"
    );
    for hide in [false, true] {
        let mut observer = Observer::new(StreamKind::Chat, hide);
        let mut bytes = event.as_bytes().to_vec();
        let time = best_of(|| {
            for _ in 0..10_000 {
                black_box(observer.feed(black_box(&mut bytes)).keep);
            }
        });
        let (head, tail) = bytes.split_at(100);
        let (mut head, mut tail) = (head.to_vec(), tail.to_vec());
        let split = best_of(|| {
            for _ in 0..10_000 {
                black_box(observer.feed(black_box(&mut head)).keep);
                black_box(observer.feed(black_box(&mut tail)).keep);
            }
        });
        println!("observer, hide {hide}: {:.0} ns an event, {:.0} in two parts", time * 1e5, split * 1e5);
    }
    println!("an Observer is {} bytes", size_of::<Observer>());

    let numbers = "0.0123456789,-0.98765432,".repeat(160_000);
    let answer = format!(r#"{{"data":[{{"embedding":[{numbers}0]}}],"usage":{{"prompt_tokens":3}}}}"#);
    let time = best_of(|| {
        let mut scan = AnswerScan::new();
        for part in answer.as_bytes().chunks(16 * 1024) {
            scan.feed(black_box(part));
        }
        scan.usage()
    });
    println!("answer scan, 4 MB of numbers: {:.2} GB/s", answer.len() as f64 / time / 1e9);
}
