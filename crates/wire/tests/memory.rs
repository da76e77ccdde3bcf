//! What reading takes of memory: as much for megabytes as for a few kilobytes. Counted by the allocator, one test at a
//! time.

use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sluicegate_wire::{AnswerScan, Observer, Shape, StreamKind, peek};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are little beside any input here, and room for what the test runner does meanwhile.
const LITTLE: usize = 16 * 1024;
/// An event that may be the gateway's own is held back up to this many bytes, in a buffer that grows by doubling.
const HELD: usize = 4 * 16 * 1024;
/// Bytes of one read.
const READ: usize = 16 * 1024;

/// What another test makes meanwhile would count as well.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that `read` takes from the allocator all together, whether it gives them back or not.
fn taken(read: impl FnOnce()) -> usize {
    let region = Region::new(ALLOCATOR);
    read();
    region.change().bytes_allocated
}

#[test]
fn a_01_finding_the_model_behind_megabytes_takes_little_memory() {
    let _alone = alone();
    for size in [1 << 20, 8 << 20] {
        let text = r#"{ } \"model\":\"m2\" \\ "#.repeat(size / 23);
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"{text}"}}],"tools":[{{"x":"{text}"}}],"stream":true,"model":"m1"}}"#
        );
        let took = taken(|| {
            let peek = peek(body.as_bytes(), Shape::Chat, &["user"]).expect("a chat");
            assert!(peek.model.is_some() && peek.stream);
        });
        assert!(took <= LITTLE, "{took} bytes for {size}");
    }
}

#[test]
fn a_16_one_very_large_event_takes_no_more_memory_than_is_held_back_of_it() {
    let _alone = alone();
    for size in [(64 << 10) + 1, (1 << 20) + 1, 4 << 20] {
        let arguments = r#"{\"a\":1}, "#.repeat(size / 11);
        let mut stream = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"function\":{{\"arguments\":\"{arguments}\"}}}}]}}}}]}}\n\n\
             data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":7,\"completion_tokens\":2}}}}\n\ndata: [DONE]\n\n"
        )
        .into_bytes();
        for hide_usage in [false, true] {
            let took = taken(|| {
                let mut observer = Observer::new(StreamKind::Chat, hide_usage);
                stream.chunks_mut(READ).for_each(|part| drop(observer.feed(part)));
                assert!(observer.ended() && observer.usage().is_some());
            });
            assert!(took <= if hide_usage { HELD } else { LITTLE }, "{took} bytes for {size}, {hide_usage}");
        }
    }
}

#[test]
fn a_26_the_counts_of_an_answer_of_megabytes_are_found_in_little_memory() {
    let _alone = alone();
    let counts = r#""usage":{"prompt_tokens":7,"completion_tokens":9}"#;
    for size in [9 << 10, 300 << 10, 5 << 20] {
        let text = r#"{\"usage\":{\"prompt_tokens\":1}} \\ "#.repeat(size / 36);
        let choices = format!(r#""choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}]"#);
        let logprobs = format!(r#""prompt_logprobs":[{}null]"#, r#"{"12":{"logprob":-1.5}},"#.repeat(45_000));
        for answer in [format!("{{{choices},{counts}}}"), format!("{{{counts},{choices},{logprobs}}}")] {
            let took = taken(|| {
                let mut scan = AnswerScan::new();
                answer.as_bytes().chunks(READ).for_each(|part| scan.feed(part));
                assert!(scan.usage().is_some());
            });
            assert!(took <= LITTLE, "{took} bytes for {size}");
        }
    }
}
