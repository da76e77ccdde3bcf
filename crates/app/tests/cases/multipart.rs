//! Forms on the audio and image endpoints: the part `model` decides the route, every byte reaches the replica.

use serde_json::json;
use sluicegate_testkit::answers::{LAST_CHUNK, chunk, json_answer, polite};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, End, Upstream, send};

use crate::checks::{assert_line, assert_own_error};
use crate::encoders::encode;

const TRANSCRIBE: &str = "/v1/audio/transcriptions";
const EDIT: &str = "/v1/images/edits";
const FORM: &str = "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW";

/// A request with these fields beside its length.
fn request(path: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("POST {path} HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in fields {
        out += &format!("{name}: {value}\r\n");
    }
    [out.as_bytes(), b"\r\n", body].concat()
}

fn post_form(path: &str, body: &[u8]) -> Vec<u8> {
    request(path, &[("Content-Type", FORM)], body)
}

/// A form of these parts: what follows `form-data; ` in the part's head, and the content.
fn form(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (head, content) in parts {
        body.extend_from_slice(
            b"------WebKitFormBoundary7MA4YWxkTrZu0gW\r\nContent-Disposition: form-data; ",
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"------WebKitFormBoundary7MA4YWxkTrZu0gW--\r\n");
    body
}

/// Bytes as a sound file has them, with everything in it that looks like a form.
fn sound(size: usize) -> Vec<u8> {
    let noise = (0..=255u8).cycle().take(4000).collect::<Vec<_>>();
    let decoy = b"\r\n------WebKitFormBoundary7MA4YWxkTrZu0g\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm2\r\n--";
    [noise.as_slice(), decoy].concat().into_iter().cycle().take(size).collect()
}

const FILE: &str = "name=\"file\"; filename=\"a; b.wav\"\r\nContent-Type: audio/wav";

#[tokio::test]
async fn a_form_is_routed_by_its_part_and_reaches_the_replica_byte_for_byte() {
    let (m1, m2) = (Upstream::start("m1"), Upstream::start("m2"));
    let config = Config::new(&[&m1]).pool("twos", &[&m2]).route("m2", "twos");
    let bench = Bench::live(&config, 2).await;
    let mut client = bench.client().await;
    let mut sent = 0;
    for size in [0, 1000, 70_000, 25 << 20] {
        let file = sound(size);
        for parts in [[("name=\"model\"", &b"m1"[..]), (FILE, &file)], [(FILE, &file), ("NAME=model", b"m1")]]
        {
            let body = form(&parts);
            let mut chunked = format!(
                "POST {TRANSCRIBE} HTTP/1.1\r\nHost: g\r\nContent-Type: {FORM}\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            .into_bytes();
            chunked.extend(body.chunks(100_000).flat_map(chunk));
            chunked.extend_from_slice(LAST_CHUNK);
            for request in [post_form(EDIT, &body), chunked] {
                let answer = client.exchange(&request).await;
                assert_eq!((answer.status(), answer.end), (200, End::Whole), "{size}: {}", answer.text());
                let received = m1.only_request();
                assert!(received.body == body, "{size}: the form was changed");
                assert_eq!(received.head.get("content-type"), Some(FORM));
                m1.forget_received();
                sent += 1;
            }
        }
    }
    assert_eq!(m2.counts().requests.get(), 0);
    for line in bench.assert_idle(sent).await {
        assert_line(&line, &[("model", json!("m1")), ("route", json!("m1")), ("outcome", json!("ok"))]);
    }
}

#[tokio::test]
async fn a_renamed_model_changes_its_part_and_nothing_else() {
    let up = Upstream::start("org/whisper");
    let bench = Bench::live(&Config::new(&[&up]).route_to("m1", "pool", "org/whisper"), 1).await;
    let file = sound(50_000);
    let parts = |model| form(&[("name=prompt", b"Ann, Bob"), ("name=\"model\"", model), (FILE, &file)]);
    assert_eq!(bench.ask(&post_form(TRANSCRIBE, &parts(b"m1"))).await.status(), 200);
    let received = up.only_request();
    assert!(received.body == parts(b"org/whisper"));
    assert_eq!(received.head.get("content-length"), Some(&*received.body.len().to_string()));
    let lines = bench.assert_idle(1).await;
    assert_line(&lines[0], &[("model", json!("m1")), ("upstream_model", json!("org/whisper"))]);
    assert_line(&lines[0], &[("endpoint", json!("/v1/audio/*"))]);
}

#[tokio::test]
async fn a_form_that_does_not_say_one_model_is_refused() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let mut client = bench.client().await;
    let good = form(&[("name=\"model\"", b"m1"), (FILE, b"RIFF")]);
    let without = form(&[("name=\"Model\"", b"m1"), (FILE, b"RIFF")]);
    let cut = good[..good.len() - 10].to_vec();
    let lone = String::from_utf8(good.clone()).expect("text").replacen("m1\r\n", "m1\n", 1).into_bytes();
    let cases = [
        (without, 400, "invalid_model", json!("model")),
        (form(&[("name=\"model\"", b" ")]), 400, "invalid_model", json!("model")),
        (form(&[("name=\"model\"", b"\xff\xfe")]), 400, "invalid_model", json!("model")),
        (form(&[("name=\"model\"", b"m1"), ("name=model", b"m1")]), 400, "doubled_member", json!("model")),
        (form(&[("name=\"model\"", b"m7")]), 404, "model_not_found", json!("model")),
        (form(&[("name=\"model\"", &vec![b'm'; 1 << 20])]), 404, "model_not_found", json!("model")),
        (form(&[("name=\"mod\\el\"", b"m1")]), 400, "invalid_form", json!(null)),
        (cut, 400, "invalid_form", json!(null)),
        (lone, 400, "invalid_form", json!(null)),
        (b"{\"model\":\"m1\"}".to_vec(), 400, "invalid_form", json!(null)),
    ];
    for (body, status, code, param) in &cases {
        let error = assert_own_error(&client.exchange(&post_form(TRANSCRIBE, body)).await, *status);
        assert_eq!((&error["code"], &error["param"]), (&json!(code), param), "{error}");
    }
    let missing = client.exchange(&post_form(TRANSCRIBE, &cases[0].0)).await.text();
    assert!(missing.contains("part"), "{missing}");
    // The same connection serves the next one.
    assert_eq!(client.exchange(&post_form(TRANSCRIBE, &good)).await.status(), 200);
    assert_eq!(up.counts().requests.get(), 1);
    bench.assert_idle(cases.len() + 2).await;
}

#[tokio::test]
async fn forms_are_taken_where_they_belong_and_json_as_well() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let body = form(&[("name=\"model\"", b"m1")]);
    let mixed = FORM.replace("form-data", "mixed");
    for (path, kinds) in [
        (CHAT, &[FORM][..]),
        ("/v1/embeddings", &[FORM]),
        (TRANSCRIBE, &[mixed.as_str()]),
        (TRANSCRIBE, &[FORM, FORM]),
        (TRANSCRIBE, &["application/json", FORM]),
        // To a reader of such forms the model could be another than in what is JSON here.
        (TRANSCRIBE, &["application/x-www-form-urlencoded"]),
        (EDIT, &["application/json", "Application/X-WWW-Form-URLencoded; charset=utf-8"]),
    ] {
        let body = if kinds.contains(&FORM) { body.clone() } else { chat("m1", r#","x":"&model=m2&""#) };
        let fields: Vec<_> = kinds.iter().map(|kind| ("Content-Type", *kind)).collect();
        let error = assert_own_error(&bench.ask(&request(path, &fields, &body)).await, 415);
        assert_eq!(error["code"], json!("unsupported_media_type"));
    }
    for kind in ["multipart/form-data", "multipart/form-data; boundary=x; boundary=x"] {
        let error = assert_own_error(&bench.ask(&request(EDIT, &[("Content-Type", kind)], &body)).await, 400);
        assert_eq!(error["code"], json!("invalid_form"));
    }
    for path in ["/v1/audio/speech", "/v1/images/generations"] {
        let json = chat("m1", r#","input":"hi""#);
        assert_eq!(bench.ask(&post(path, &json)).await.status(), 200);
        assert_eq!(up.received().pop().expect("a request").body, json);
    }
    assert_eq!(up.counts().requests.get(), 2);
    bench.assert_idle(11).await;
}

#[tokio::test]
async fn a_coded_form_is_decoded_and_a_streamed_transcription_relayed() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let body = form(&[("name=\"model\"", b"m1"), ("name=stream", b"True"), (FILE, &sound(9000))]);
    let coded = encode("zstd", &body);
    up.on_request(|request| match request.index {
        0 => polite(request),
        _ => sluicegate_testkit::answers::Stream::chat(&["hel", "lo"]).steps(),
    });
    for (fields, sent) in [(vec![("Content-Encoding", "zstd")], &coded), (vec![], &body)] {
        let fields = [vec![("Content-Type", FORM)], fields].concat();
        assert_eq!(bench.ask(&request(TRANSCRIBE, &fields, sent)).await.status(), 200);
        assert!(up.received().pop().expect("a request").body == body);
    }
    up.answer_with(vec![send(json_answer(
        400,
        r#"{"error":{"message":"too short","type":"BadRequestError"}}"#,
    ))]);
    assert_eq!(bench.ask(&post_form(TRANSCRIBE, &body)).await.status(), 400);
    let lines = bench.assert_idle(3).await;
    assert_line(
        &lines[1],
        &[("stream", json!(true)), ("completion_tokens", json!(2)), ("outcome", json!("ok"))],
    );
    assert_line(&lines[2], &[("error_type", json!("BadRequestError")), ("outcome", json!("client_error"))]);
}

#[tokio::test]
async fn a_forms_session_key_is_the_one_of_a_json_body() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let config = Config::new(&[&ups[0], &ups[1], &ups[2]]).set("routes", "mode", "adaptive");
    let bench = Bench::live(&config, 3).await;
    let session = r#","prompt_cache_key":"s-1""#;
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", session))).await.status(), 200);
    let keyed = |head, value| form(&[("name=\"model\"", &b"m1"[..]), (head, value), (FILE, b"RIFF")]);
    let long = "s-1".repeat(1000);
    // The part's head, its content, whether the pin is followed.
    let rows: [(&str, &[u8], bool); 5] = [
        ("name=\"prompt_cache_key\"", b"s-1", true),
        ("name=\"prompt_cache_key\"", b"s-2", false),
        ("name=\"prompt_cache_key\"", b" ", false),
        ("name=\"prompt_cache_key\"; filename=\"k\"", b"s-1", false),
        ("name=\"prompt_cache_key\"", long.as_bytes(), false),
    ];
    for (head, value, _) in rows {
        assert_eq!(bench.ask(&post_form(TRANSCRIBE, &keyed(head, value))).await.status(), 200, "{head}");
    }
    let lines = bench.assert_idle(6).await;
    for ((head, _, followed), line) in rows.iter().zip(&lines[1..]) {
        let affinity = if *followed { json!("session") } else { json!(null) };
        assert_line(line, &[("affinity", affinity)]);
        assert!(!followed || line["replica"] == lines[0]["replica"], "{head}");
    }
    let twice = form(&[
        ("name=model", &b"m1"[..]),
        ("name=prompt_cache_key", b"s-1"),
        ("name=prompt_cache_key", b"s-2"),
    ]);
    assert_own_error(&bench.ask(&post_form(TRANSCRIBE, &twice)).await, 400);
}
