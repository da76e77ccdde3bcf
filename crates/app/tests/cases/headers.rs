//! A-62, A-63: old clients, and fields that belong to one connection only.

use serde_json::json;
use sluicegate_testkit::answers::{
    DONE, LAST_CHUNK, STREAM_HEAD, Stream, chat_answer, chat_json, chunk, role_event, text_event,
};
use sluicegate_testkit::requests::{CHAT, chat, chat_stream, post, post_with};
use sluicegate_testkit::{Bench, Config, End, Feed, Step, Upstream, send};

use crate::checks::assert_line;

fn old(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("POST {CHAT} HTTP/1.0\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn a_62_an_http_1_0_client_gets_a_length_or_a_close() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let body = chat("m1", "");
    let chunked = {
        let mut steps = vec![send(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        )];
        steps.extend(chat_json("a", 1, 1).as_bytes().chunks(50).map(|p| send(chunk(p))));
        steps.push(send(LAST_CHUNK));
        steps
    };
    let mut sent = 0;
    for fields in ["", "Host: g\r\n", "Connection: keep-alive\r\n", "Host: g\r\nConnection: Keep-Alive\r\n"] {
        for (steps, length_known) in [(vec![send(chat_answer("a", 1, 1))], true), (chunked.clone(), false)] {
            up.answer_with(steps);
            let kept = fields.to_ascii_lowercase().contains("keep-alive");
            let mut client = bench.client().await;
            client.send(&old(fields, &body)).await;
            let answer = client.answer().await;
            assert_eq!((answer.status(), answer.text(), answer.end), (200, chat_json("a", 1, 1), End::Whole));
            assert!(!answer.head.has("transfer-encoding"), "{:?}", answer.head);
            sent += 1;
            if kept && answer.head.has("content-length") {
                // A kept connection says so, and takes the next request.
                assert_eq!(
                    answer.head.get("connection").map(str::to_ascii_lowercase).as_deref(),
                    Some("keep-alive")
                );
                assert_eq!(client.exchange(&old("", &body)).await.text(), chat_json("a", 1, 1));
                sent += 1;
            }
            assert!(answer.head.has("content-length") || !length_known, "{:?}", answer.head);
            assert_eq!(client.closed().await, End::Cut, "closed in good order");
        }
    }
    bench.assert_idle(sent).await;
}

#[tokio::test]
async fn a_62_tokens_reach_an_http_1_0_client_at_once() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let mut sent = 0;
    for fields in ["", "Connection: keep-alive\r\n"] {
        let feed = Feed::new();
        up.answer_with(vec![send(STREAM_HEAD), Step::Feed(feed.clone()), send(LAST_CHUNK)]);
        let mut client = bench.client().await;
        client.send(&old(fields, &chat_stream("m1"))).await;
        feed.push(chunk(&role_event()));
        let head = client.head().await;
        assert!(!head.has("transfer-encoding") && !head.has("content-length"), "{head:?}");
        assert_ne!(head.get("connection").map(str::to_ascii_lowercase).as_deref(), Some("keep-alive"));
        assert_eq!(client.event().await, role_event());
        for i in 0..20 {
            let event = text_event(&format!("t{i}"));
            feed.push(chunk(&event));
            assert_eq!(client.event().await, event);
        }
        feed.push(chunk(DONE));
        feed.end();
        assert_eq!(client.rest().await, (DONE.to_vec(), End::Whole));
        sent += 1;
    }
    for line in bench.assert_idle(sent).await {
        assert_line(&line, &[("outcome", json!("ok")), ("events", json!(21))]);
    }
}

/// Every field of the client's head that must not cross, and those that must.
#[tokio::test]
async fn a_63_fields_of_one_connection_do_not_cross_and_all_others_do() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let reply = [
        ("Connection", "X-Back, keep-alive"),
        ("X-Back", "1"),
        ("Keep-Alive", "timeout=9"),
        ("X-One", "a"),
        ("Link", "<1>"),
        ("x-two", "b"),
        ("Link", "<2>"),
        ("Proxy-Authenticate", "Basic"),
        ("X-One", "c, d"),
        ("Upgrade", "h2c"),
        ("Trailer", "X-T"),
        ("X-Empty", ""),
    ];
    up.answer_with(vec![send(sluicegate_testkit::answers::answer(200, &reply, b"{}"))]);
    let fields = [
        ("X-One", "a"),
        ("Connection", "close, X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "5"),
        ("TE", "trailers"),
        ("X-Two", "b"),
        ("Proxy-Connection", "x"),
        ("Proxy-Authorization", "y"),
        ("X-One", "c,d"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AA"),
        ("Trailer", "X-T"),
        ("connection", "x-lower , HTTP2-Settings"),
        ("X-LOWER", "2"),
        ("X-Empty", ""),
    ];
    let mut client = bench.client().await;
    client.send(&post_with(CHAT, &fields, &chat("m1", ""))).await;
    let answer = client.answer().await;
    assert_eq!(client.closed().await, End::Cut);
    let received = up.only_request();
    let hops = [
        "x-hop",
        "x-lower",
        "x-back",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "http2-settings",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
    ];
    let own = |head: &sluicegate_testkit::Head| {
        let kept = |name: &str| name.starts_with("x-") && name != "x-request-id" || name == "link";
        head.fields.iter().filter(|(n, _)| kept(n)).cloned().collect::<Vec<_>>()
    };
    for hop in hops {
        assert!(!received.head.has(hop), "{hop} reached the replica");
        assert!(!answer.head.has(hop), "{hop} reached the client");
    }
    assert!(
        received.head.all("connection").all(|v| v.eq_ignore_ascii_case("keep-alive")),
        "{:?}",
        received.head
    );
    let expect = |list: &[(&str, &str)]| {
        list.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(
        own(&received.head),
        expect(&[("x-one", "a"), ("x-two", "b"), ("x-one", "c,d"), ("x-empty", "")])
    );
    let back = [
        ("x-one", "a"),
        ("link", "<1>"),
        ("x-two", "b"),
        ("link", "<2>"),
        ("x-one", "c, d"),
        ("x-empty", ""),
    ];
    assert_eq!(own(&answer.head), expect(&back));
    bench.assert_idle(1).await;
}

#[tokio::test]
async fn a_63_a_close_from_one_side_closes_only_that_side() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("listen", "threads", 1), 1).await;
    let body = chat("m1", "");
    // The clients close; the connection to the replica is kept for all of them.
    for _ in 0..3 {
        let mut client = bench.client().await;
        client.send(&post_with(CHAT, &[("Connection", "close")], &body)).await;
        let answer = client.answer().await;
        assert_eq!(answer.head.get("connection").map(str::to_ascii_lowercase).as_deref(), Some("close"));
        assert_eq!(client.closed().await, End::Cut);
    }
    let used: Vec<u64> = up.received().iter().map(|r| r.connection).collect();
    assert_eq!((used[1], used[2]), (used[0], used[0]), "{used:?}");
    // The replica closes; the client's connection is kept.
    let closing = sluicegate_testkit::answers::answer(200, &[("connection", "close")], b"{}");
    up.answer_with(vec![send(closing), Step::Close]);
    let mut client = bench.client().await;
    for _ in 0..3 {
        let answer = client.exchange(&post(CHAT, &body)).await;
        assert_eq!((answer.status(), answer.end), (200, End::Whole));
        assert_ne!(answer.head.get("connection").map(str::to_ascii_lowercase).as_deref(), Some("close"));
    }
    let lines = bench.assert_idle(6).await;
    assert!(lines.iter().all(|l| l["attempts"] == json!(1) && l["outcome"] == json!("ok")), "{lines:#?}");
}

/// Requests sent at once on one connection are answered one after the other, in their order.
#[tokio::test]
async fn a_63_pipelined_requests_are_answered_in_order() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    up.on_request(|request| {
        let name = request.json()["user"].as_str().expect("a user").to_owned();
        if request.text().contains(r#""stream":true"#) {
            return Stream::chat(&[&name]).steps();
        }
        vec![send(chat_answer(&name, 1, 1))]
    });
    let mut sent = 0;
    for kinds in [[false, false, false], [true, true, true], [true, false, true], [false, true, false]] {
        let mut client = bench.client().await;
        let mut wire = Vec::new();
        for (i, stream) in kinds.iter().enumerate() {
            wire.extend(post(CHAT, &chat("m1", &format!(r#","user":"r{i}","stream":{stream}"#))));
        }
        client.send(&wire).await;
        for (i, stream) in kinds.iter().enumerate() {
            let answer = client.answer().await;
            assert_eq!((answer.status(), answer.end), (200, End::Whole), "request {i} of {kinds:?}");
            assert!(answer.text().contains(&format!(r#""content":"r{i}""#)), "{}", answer.text());
            assert_eq!(answer.head.has("transfer-encoding"), *stream);
            sent += 1;
        }
    }
    bench.assert_idle(sent).await;
}
