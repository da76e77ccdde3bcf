//! Field cases as far as heads and framing decide them.

use sluicegate_wire::{
    ChunkDecoder, ClientFraming, HeadError, RequestFraming, RequestHead, ResponseHead, UpstreamHead,
    chunk_head, parse_request, parse_response, write_client_head, write_upstream_head,
};

fn request(bytes: &[u8]) -> RequestHead<'_> {
    parse_request(bytes).expect("well-formed").expect("complete")
}

fn response(text: &str) -> ResponseHead<'_> {
    parse_response(text.as_bytes(), false).expect("well-formed").expect("complete")
}

fn sent_upstream(client: &RequestHead<'_>, content_length: Option<usize>) -> String {
    let up = UpstreamHead { authority: "replica:8000", path: client.target, extra: &[], content_length };
    let mut out = Vec::new();
    write_upstream_head(&mut out, client, &up);
    String::from_utf8(out).expect("ASCII in, ASCII out")
}

fn sent_to_client(
    replica: &ResponseHead<'_>,
    framing: ClientFraming,
    http11: bool,
    keep_alive: bool,
) -> String {
    let mut out = Vec::new();
    write_client_head(&mut out, replica, framing, http11, keep_alive, &[]);
    String::from_utf8(out).expect("ASCII in, ASCII out")
}

#[test]
fn a_11_a_chunked_request_goes_on_with_one_content_length() {
    let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nTransfer-Encoding: chunked\r\n\r\n";
    let body: Vec<u8> =
        br#"{"model":"m1","messages":[]}"#.iter().copied().cycle().take(1 + 7 + 4096 + 70_000).collect();
    let mut stream = head.as_bytes().to_vec();
    let mut rest = body.as_slice();
    for size in [1, 7, 4096, 70_000, 0] {
        let mut line = [0; 18];
        let used = chunk_head(size, &mut line);
        let (chunk, after) = rest.split_at(size);
        rest = after;
        stream.extend_from_slice(&line[..used]);
        stream.extend_from_slice(chunk);
        stream.extend_from_slice(b"\r\n");
    }
    let next = b"GET /v1/models HTTP/1.1\r\nHost: gw\r\n\r\n";
    stream.extend_from_slice(next);
    let client = request(&stream);
    assert_eq!((client.framing, client.keep_alive), (RequestFraming::Chunked, true));
    for read_size in [1, 7, 1000, 16 * 1024, stream.len()] {
        let (payload, used) = dechunk(&stream[client.len..], read_size);
        assert!(payload == body, "the same bytes, read {read_size} at a time");
        assert_eq!(&stream[client.len + used..], next, "the next request is left whole");
    }
    let upstream = sent_upstream(&client, Some(body.len()));
    assert_eq!(upstream.matches("content-length: 74104\r\n").count(), 1);
    assert!(!upstream.to_ascii_lowercase().contains("transfer-encoding"));
}

fn dechunk(bytes: &[u8], read_size: usize) -> (Vec<u8>, usize) {
    let mut decoder = ChunkDecoder::new();
    let (mut payload, mut used) = (Vec::new(), 0);
    for read in bytes.chunks(read_size) {
        let mut buf = read.to_vec();
        let decoded = decoder.decode(&mut buf).expect("well-formed");
        payload.extend_from_slice(&buf[..decoded.payload]);
        used += decoded.consumed;
        if decoded.done {
            return (payload, used);
        }
    }
    panic!("the body has an end");
}

#[test]
fn a_12_an_expectation_is_known_before_the_body_and_not_sent_on() {
    let head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: gw\r\nExpect: 100-continue\r\nContent-Length: 5867\r\n\r\n";
    let client = request(head);
    assert!(client.expect_continue);
    assert_eq!((client.len, client.framing), (head.len(), RequestFraming::Length(5867)));
    assert!(!sent_upstream(&client, Some(5867)).to_ascii_lowercase().contains("expect"));
    let interim = response("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(
        (interim.status, interim.len, interim.keep_alive),
        (100, "HTTP/1.1 100 Continue\r\n\r\n".len(), true)
    );
}

#[test]
fn a_62_an_http_1_0_client_never_gets_chunks() {
    let post =
        |fields: &str| format!("POST /v1/chat/completions HTTP/1.0\r\n{fields}Content-Length: 2\r\n\r\n{{}}");
    let replica =
        response("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (fields, keep_alive) in [("", false), ("Connection: keep-alive\r\n", true)] {
        let text = post(fields);
        let client = request(text.as_bytes());
        assert_eq!((client.http11, client.keep_alive), (false, keep_alive));
        assert!(
            sent_upstream(&client, Some(2))
                .starts_with("POST /v1/chat/completions HTTP/1.1\r\nhost: replica:8000\r\n")
        );
        for framing in [ClientFraming::Chunked, ClientFraming::Close] {
            let sent = sent_to_client(&replica, framing, false, keep_alive);
            assert!(!sent.to_ascii_lowercase().contains("transfer-encoding"), "{sent}");
            assert!(
                sent.ends_with("connection: close\r\n\r\n"),
                "a body of unknown length ends with the connection: {sent}"
            );
        }
        let sent = sent_to_client(&replica, ClientFraming::Length(7), false, keep_alive);
        let connection = if keep_alive { "keep-alive" } else { "close" };
        assert!(sent.ends_with(&format!("content-length: 7\r\nconnection: {connection}\r\n\r\n")), "{sent}");
    }
}

#[test]
fn a_63_hop_by_hop_fields_cross_in_neither_direction() {
    let text = "POST / HTTP/1.1\r\nHost: gw\r\nAccept: a\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\
                TE: trailers\r\nProxy-Connection: x\r\nProxy-Authorization: y\r\nX-Twice: 1\r\nx-twice: 2\r\n\
                Content-Length: 0\r\n\r\n";
    let client = request(text.as_bytes());
    assert!(!client.keep_alive, "the client's side closes");
    let expected = "POST / HTTP/1.1\r\nhost: replica:8000\r\nAccept: a\r\nX-Twice: 1\r\nx-twice: 2\r\ncontent-length: 0\r\n";
    assert_eq!(sent_upstream(&client, Some(0)), expected);
    let replica = response(
        "HTTP/1.1 200 OK\r\nConnection: X-Back, close\r\nX-Back: 1\r\nKeep-Alive: 9\r\nVary: a\r\nvary: b\r\n\
         Content-Length: 0\r\n\r\n",
    );
    assert!(!replica.keep_alive, "the replica's side closes");
    let expected = "HTTP/1.1 200 OK\r\nVary: a\r\nvary: b\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(sent_to_client(&replica, ClientFraming::Length(0), true, true), expected);
}

#[test]
fn a_66_a_length_beside_a_coding_is_refused_in_any_order() {
    let body = "0\r\n\r\nGET /admin HTTP/1.1\r\nHost: gw\r\n\r\n";
    let coding = [
        "Transfer-Encoding: chunked",
        "transfer-encoding: CHUNKED",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding:",
    ];
    for coding in coding {
        for length in ["Content-Length: 13", "content-length: 0", "Content-Length: x"] {
            for fields in [format!("{length}\r\n{coding}"), format!("{coding}\r\nX: y\r\n{length}")] {
                let text = format!("POST /v1/completions HTTP/1.1\r\nHost: gw\r\n{fields}\r\n\r\n{body}");
                let error = parse_request(text.as_bytes()).expect_err("refused");
                assert_eq!(error, HeadError::Bad("both Content-Length and Transfer-Encoding"), "{fields}");
            }
        }
    }
}
