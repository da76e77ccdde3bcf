//! A-01, A-05, A-06, A-07: bodies are read where they must be, and left alone everywhere else.

use serde_json::json;
use sluicegate_testkit::answers;
use sluicegate_testkit::requests::{CHAT, chat, post, post_chunked};
use sluicegate_testkit::{Bench, Config, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed, assert_only_injected, assert_own_error, requests_at};

/// Keys in the order messages, tools, stream, model; about `size` bytes of messages full of look-alikes.
fn model_last(size: usize, stream: &str) -> Vec<u8> {
    let noise = r#"{ } [ ] \" \\ \"model\":\"m2\", : , {\"model\": \\\"m2\\\"} "#.repeat(size / 56 + 1);
    let schema = r#"{"type":"object","properties":{"model":{"type":"string","enum":["m2"]}}},"#
        .repeat(200 * 1024 / 73);
    let schema = schema.trim_end_matches(',');
    format!(
        r#"{{"messages":[{{"role":"user","content":"{noise}"}}],"tools":[{schema}],"stream":{stream},"model":"m1"}}"#
    )
    .into_bytes()
}

#[tokio::test]
async fn a_01_a_model_after_megabytes_of_messages_is_found() {
    let (m1, m2) = (Upstream::start("m1"), Upstream::start("m2"));
    let config = Config::new(&[&m2]).pool("ones", &[&m1]).route("m1", "ones");
    let bench = Bench::live(&config, 2).await;
    let runs =
        [(64 * 1024, "false"), (1 << 20, "false"), (1 << 20, "true"), (8 << 20, "false"), (8 << 20, "true")];
    for (size, stream) in runs {
        let body = model_last(size, stream);
        assert!(body.len() > size);
        let answer = bench.ask(&post(CHAT, &body)).await;
        assert_eq!(answer.status(), 200, "{size} {stream}: {}", answer.text());
        let received = m1.received().pop().expect("a request at m1");
        match stream {
            "true" => assert_only_injected(&received.body, &body),
            _ => assert!(received.body == body, "the body was changed"),
        }
        m1.forget_received();
    }
    assert_eq!((m1.counts().requests.get(), m2.counts().requests.get()), (5, 0));
    for line in bench.assert_idle(5).await {
        assert_line(&line, &[("model", json!("m1")), ("route", json!("m1")), ("outcome", json!("ok"))]);
    }
}

/// Python's loader, which the engines use, accepts one mark on bytes: so does the gateway, and it sends the engine the
/// body without it.
#[tokio::test]
async fn a_05_a_byte_order_mark_is_accepted_whatever_the_size() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let small = chat("m1", "");
    let large = chat("m1", &format!(r#","user":"{}""#, "x".repeat(200 * 1024)));
    let stream = chat("m1", r#","stream":true"#);
    for plain in [&small, &large, &stream] {
        let marked = [b"\xEF\xBB\xBF", plain.as_slice()].concat();
        for request in [post(CHAT, &marked), post_chunked(CHAT, marked.chunks(2))] {
            let answer = bench.ask(&request).await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
            let received = up.received().pop().expect("a request");
            match plain == &stream {
                true => assert_only_injected(&received.body, plain),
                false => assert_eq!(received.body, *plain),
            }
        }
    }
    // A second mark is no JSON for Python either, and a mark alone is no body.
    for bad in [
        [b"\xEF\xBB\xBF\xEF\xBB\xBF", small.as_slice()].concat(),
        b"\xEF\xBB\xBF".to_vec(),
        b"\xEF\xBB".to_vec(),
    ] {
        assert_own_error(&bench.ask(&post(CHAT, &bad)).await, 400);
    }
    assert_eq!(up.counts().requests.get(), 6);
    bench.assert_idle(9).await;
}

/// Texts that strict decoders refuse and that are the engine's business.
const ODD_TEXTS: [&str; 6] = [
    r"cut \ud83d here",
    r"\ude00 first",
    r"\ud83d",
    r"\ud83d\ud83d",
    r"\ud83d\u0041 \udfff\ud800",
    r"tail \\\ud83d",
];

#[tokio::test]
async fn a_06_unpaired_surrogates_are_passed_on_untouched() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    for text in ODD_TEXTS {
        for members in ["", r#","stream":true"#] {
            let body = format!(
                r#"{{"model":"m1","messages":[{{"role":"system","content":"{text}"}},{{"role":"user","content":"{text}"}}]{members}}}"#
            );
            assert_eq!(bench.ask(&post(CHAT, body.as_bytes())).await.status(), 200, "{text}");
            let received = up.received().pop().expect("a request");
            match members.is_empty() {
                true => assert_eq!(received.body, body.as_bytes()),
                false => assert_only_injected(&received.body, body.as_bytes()),
            }
        }
    }
    bench.assert_idle(12).await;
}

#[tokio::test]
async fn a_06_a_500_for_a_surrogate_is_replayed_at_most_once_and_blames_nobody() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let all = [&ups[0], &ups[1], &ups[2]];
    let bench = Bench::with_replicas(&all).await;
    let relayed = answers::error_json(500, "'utf-8' codec can't encode character '\\ud83d'");
    for up in all {
        up.answer_with(vec![send(answers::json_answer(500, &relayed))]);
    }
    for (i, text) in ODD_TEXTS.iter().enumerate() {
        let body = format!(r#"{{"model":"m1","messages":[{{"role":"user","content":"{text}"}}]}}"#);
        let answer = bench.ask(&post(CHAT, body.as_bytes())).await;
        assert_eq!((answer.status(), answer.text()), (500, relayed.clone()), "{text}");
        assert!(requests_at(&all) <= 2 * (i as u64 + 1), "{text}: replayed more than once");
    }
    for line in bench.assert_idle(ODD_TEXTS.len()).await {
        assert_line(&line, &[("outcome", json!("upstream_error")), ("status", json!(500))]);
    }
    assert_nobody_blamed(&bench, &all);
}

/// A body that a parse-and-write-again would change in many ways.
const DELICATE: &str = concat!(
    "\r\n {\"model\" :\t\"m1\",\"seed\":9007199254740993,\"temperature\": 1.10, \"top_p\":1e-0,\"stream\":true,\n",
    r#""response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"properties":{"zebra":{},"apple":{},"mango":{}}}}},"#,
    r#""messages":[ {"role":"user","content":"raw 汉🦀é, coded \u6c49\ud83e\udd80\u00E9\/ \u002f"} ] ,"#,
    r#""metadata":{"b":1,"a":2,"b":3},"big":123456789012345678901234567890,"tiny":-0.0,"x":[1.0,1.00,100E-2]"#,
    "   }\t\r\n"
);

#[tokio::test]
async fn a_07_only_the_spliced_member_differs_and_every_copy_is_the_same() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let body = DELICATE.as_bytes();
    for i in 0..20 {
        let request = if i % 2 == 0 { post(CHAT, body) } else { post_chunked(CHAT, body.chunks(i)) };
        assert_eq!(bench.ask(&request).await.status(), 200);
    }
    let received = up.received();
    assert_only_injected(&received[0].body, body);
    for copy in &received {
        assert_eq!(copy.body, received[0].body);
        // Exactly one framing, and a right one: the replica read this body by it.
        assert!(copy.head.has("content-length") != copy.head.has("transfer-encoding"), "{:?}", copy.head);
    }
    bench.assert_idle(20).await;
}

#[tokio::test]
async fn a_07_a_renamed_model_changes_the_name_and_nothing_else() {
    let up = Upstream::start("org/Model-7B");
    let config = Config::new(&[&up]).route_to("m1", "pool", "org/Model-7B");
    let bench = Bench::live(&config, 1).await;
    for stream in ["true", "false"] {
        let body = DELICATE.replace("\"stream\":true", &format!("\"stream\":{stream}"));
        assert_eq!(bench.ask(&post(CHAT, body.as_bytes())).await.status(), 200);
        let received = up.received().pop().expect("a request");
        let renamed = body.replacen("\"m1\"", "\"org/Model-7B\"", 1);
        match stream {
            "true" => assert_only_injected(&received.body, renamed.as_bytes()),
            _ => assert_eq!(received.text(), renamed),
        }
    }
    for line in bench.assert_idle(2).await {
        assert_line(&line, &[("model", json!("m1")), ("upstream_model", json!("org/Model-7B"))]);
    }
}
