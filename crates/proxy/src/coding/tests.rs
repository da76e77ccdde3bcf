use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use sluicegate_wire::{AnswerScan, Observer, StreamKind};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use super::*;

const MAX: usize = 1 << 20;
const ALL: [&str; 5] = ["gzip", "deflate", "raw", "zstd", "br"];

/// Where an encoder writes, to be looked at while it does.
#[derive(Clone, Default)]
struct Sink(Rc<RefCell<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Coded by an encoder of the named format; `raw` is deflate without the zlib format around it.
fn encode(name: &str, body: &[u8]) -> Vec<u8> {
    encode_flushed(name, &[body]).0
}

/// Each part is flushed, so that it can be decoded before the next is there. Also where each part ends.
fn encode_flushed(name: &str, parts: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
    let sink = Sink::default();
    let to = sink.clone();
    let mut encoder: Box<dyn Write> = match name {
        "gzip" => Box::new(GzEncoder::new(to, Compression::fast())),
        "deflate" => Box::new(ZlibEncoder::new(to, Compression::fast())),
        "raw" => Box::new(DeflateEncoder::new(to, Compression::fast())),
        "br" => Box::new(brotli::CompressorWriter::new(to, 4096, 1, 22)),
        _ => return encode_zstd(parts),
    };
    let ends = parts.iter().map(|part| {
        encoder.write_all(part).expect("a vector takes all");
        encoder.flush().expect("a vector takes all");
        sink.0.borrow().len()
    });
    let ends = ends.collect();
    drop(encoder);
    (sink.0.take(), ends)
}

fn encode_zstd(parts: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
    let mut context = CCtx::create();
    context.set_parameter(CParameter::ChecksumFlag(true)).expect("a parameter");
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    let mut add = |part: &[u8], how| {
        let mut buffer = vec![0; zstd_safe::compress_bound(part.len()) + 64];
        let mut to = OutBuffer::around(&mut buffer[..]);
        let left = context.compress_stream2(&mut to, &mut InBuffer::around(part), how);
        assert_eq!(left, Ok(0), "there is room");
        out.extend_from_slice(to.as_slice());
        out.len()
    };
    for part in parts {
        ends.push(add(part, ZSTD_EndDirective::ZSTD_e_flush));
    }
    add(b"", ZSTD_EndDirective::ZSTD_e_end);
    (out, ends)
}

fn codings(value: &str) -> Result<Codings, Refusal> {
    Codings::of(&[Header { name: "Content-Encoding", value: value.as_bytes() }])
}

fn decoded(value: &str, coded: &[u8], max: usize) -> Result<Vec<u8>, Refusal> {
    decode_now(&codings(&value.replace("raw", "deflate")).expect("known codings"), coded, max)
        .map(|b| b.to_vec())
}

/// Text that compresses about as well as prompts do.
fn text(len: usize) -> Vec<u8> {
    let mut state = 7u64;
    let mut word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:x} ", state >> 52)
    };
    let mut out = Vec::new();
    while out.len() < len {
        out.extend_from_slice(word().as_bytes());
    }
    out.truncate(len);
    out
}

#[test]
fn fields_name_codings_in_the_order_they_were_applied() {
    use Coding::{Brotli, Deflate, Gzip, Zstd};
    for (values, expected) in [
        (&[][..], Some(&[][..])),
        (&["identity"], Some(&[])),
        (&["", " , identity ,"], Some(&[])),
        (&["GZIP"], Some(&[Gzip])),
        (&["x-gzip"], Some(&[Gzip])),
        (&["deflate, identity, br"], Some(&[Deflate, Brotli])),
        (&["zstd", "gzip"], Some(&[Zstd, Gzip])),
        (&["gzip,gzip,gzip"], None),
        (&["gzip", "identity", "gzip", "br"], None),
        (&["compress"], None),
        (&["gzip;q=1"], None),
        (&["aws-chunked"], None),
    ] {
        let headers: Vec<_> =
            values.iter().map(|v| Header { name: "content-ENCODING", value: v.as_bytes() }).collect();
        let found = Codings::of(&headers);
        match expected {
            Some(expected) => assert_eq!(found.expect("known codings").0[..], *expected, "{values:?}"),
            None => assert_eq!(found, Err(Refusal::UnsupportedCoding), "{values:?}"),
        }
    }
}

#[test]
fn bodies_of_any_size_come_out_as_they_went_in() {
    for size in [1, 300, 60_000, STEP - 1, STEP, STEP + 1, MAX] {
        let body = text(size);
        for name in ALL {
            let coded = encode(name, &body);
            assert_eq!(decoded(name, &coded, MAX), Ok(body.clone()), "{name} {size}");
            for outer in ALL.iter().filter(|_| size <= 60_000) {
                let twice = encode(outer, &coded);
                assert_eq!(
                    decoded(&format!("{name}, {outer}"), &twice, MAX),
                    Ok(body.clone()),
                    "{name} in {outer} {size}"
                );
            }
        }
    }
    for name in ALL {
        assert_eq!(decoded(name, &encode(name, b""), 0), Ok(Vec::new()), "{name}");
    }
}

#[test]
fn members_and_frames_one_behind_the_other_are_one_body() {
    for name in ["gzip", "zstd"] {
        let coded = [encode(name, b"one "), encode(name, b""), encode(name, b"two")].concat();
        assert_eq!(decoded(name, &coded, MAX), Ok(b"one two".to_vec()), "{name}");
    }
    // A frame that says to skip four bytes.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &encode("zstd", b"x")].concat();
    assert_eq!(decoded("zstd", &skipped, MAX), Ok(b"x".to_vec()));
    let many = encode("gzip", b"").repeat(5000);
    let refusal = decoded("gzip", &many, MAX).expect_err("too many members");
    assert!(
        matches!(refusal, Refusal::BadCoding { coding: "gzip", what: "it has too many members" }),
        "{refusal}"
    );
}

#[test]
fn every_cut_and_every_byte_behind_the_end_is_told() {
    let body = text(700);
    for name in ALL {
        let coded = encode(name, &body);
        for cut in 0..coded.len() {
            let refusal = decoded(name, &coded[..cut], MAX).expect_err("cut short");
            assert!(
                matches!(refusal, Refusal::BadCoding { what: "it is cut short", .. }),
                "{name} {cut}: {refusal}"
            );
        }
        for tail in [&b"\0"[..], b"{}", b"\x28", b"\xff\xff\xff\xff"] {
            let longer = [&coded, tail].concat();
            let refusal = decoded(name, &longer, MAX).expect_err("trailing bytes");
            assert_eq!(refusal.status(), 400, "{name} {tail:?}: {refusal}");
        }
        let longer = [coded.as_slice(), b"garbage"].concat();
        let refusal = decoded(name, &longer, MAX).expect_err("trailing bytes");
        assert!(
            matches!(refusal, Refusal::BadCoding { what: "bytes follow its end", .. }),
            "{name}: {refusal}"
        );
    }
}

#[test]
fn corrupt_bytes_are_refused_or_harmless_and_never_a_panic() {
    let body = text(500);
    for name in ALL {
        let coded = encode(name, &body);
        for at in 0..coded.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bad = coded.clone();
                bad[at] ^= flip;
                match decoded(name, &bad, MAX) {
                    Err(refusal) => assert!(matches!(refusal.status(), 400 | 413), "{name} {at}: {refusal}"),
                    // What a checksum guards cannot come out changed.
                    Ok(out) => assert!(out == body || matches!(name, "raw" | "br"), "{name} {at}"),
                }
            }
        }
    }
    for name in ALL {
        let refusal = decoded(name, b"{\"model\":\"m\"}", MAX).expect_err("plain JSON");
        assert_eq!(refusal.status(), 400, "{name}: {refusal}");
    }
}

#[test]
fn the_cap_counts_decoded_bytes_and_decoding_stops_there() {
    let body = text(10_000);
    for name in ALL {
        let coded = encode(name, &body);
        assert_eq!(decoded(name, &coded, 10_000), Ok(body.clone()), "{name}");
        assert_eq!(decoded(name, &coded, 9_999), Err(Refusal::TooLarge(9_999)), "{name}");
    }
    let zeros = vec![0; 2 << 20];
    for name in ALL {
        let bomb = encode(name, &zeros);
        assert_eq!(decoded(name, &bomb, MAX), Err(Refusal::TooLarge(MAX)), "{name}");
        let codings = codings(&name.replace("raw", "deflate")).expect("known codings");
        let mut decoding = Decoding::new(&codings, &bomb, None, MAX);
        while decoding.step().is_ok() {}
        assert_eq!(decoding.plain.len(), MAX + 1, "{name}: nothing is decoded beyond the cap");
    }
}

#[test]
fn a_bomb_between_two_codings_is_capped_too() {
    // Megabytes of members that hold nothing: the inner coding gives out no byte.
    let nothing = encode("gzip", b"").repeat(60_000);
    for outer in ALL {
        let bomb = encode(outer, &nothing);
        let refusal = decoded(&format!("gzip, {outer}"), &bomb, MAX).expect_err("a bomb");
        assert!(matches!(refusal.status(), 400 | 413), "{outer}: {refusal}");
    }
    // A skippable frame of zeros is no output either.
    let mut skipped = vec![0x50, 0x2a, 0x4d, 0x18, 0, 0, 0x40, 0];
    skipped.resize(skipped.len() + (4 << 20), 0);
    let bomb = encode("gzip", &skipped);
    assert_eq!(decoded("zstd, gzip", &bomb, MAX), Err(Refusal::TooLarge(MAX)));
}

#[test]
fn a_window_of_gigabytes_is_refused_before_it_is_allocated() {
    // Magic, no flags, window descriptor 2^31 (exponent 21).
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0];
    let refusal = decoded("zstd", &frame, MAX).expect_err("a large window");
    assert!(matches!(refusal, Refusal::BadCoding { what: "its window is too large", .. }), "{refusal}");
    // Brotli's large-window form (RFC 9841 is another coding): first byte 0x11.
    assert_eq!(decoded("br", &[0x11, 0x1f, 0, 0], MAX).expect_err("a large window").status(), 400);
}

#[test]
fn a_copy_reads_each_event_as_soon_as_it_is_there_in_any_split() {
    let events: Vec<String> = (0..20)
        .map(|i| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"t{i}\"}}}}]}}\n\n"))
        .chain(["data: [DONE]\n\n".to_owned()])
        .collect();
    let parts: Vec<&[u8]> = events.iter().map(|e| e.as_bytes()).collect();
    for name in ["gzip", "deflate", "raw", "zstd", "br"] {
        let coding = Coding::of(name.replace("raw", "deflate").as_bytes()).expect("a coding");
        let (coded, ends) = encode_flushed(name, &parts);
        for step in [1, 2, 3, 7, 64, coded.len()] {
            let reader = Reader::Stream(Observer::new(StreamKind::Chat, false));
            let mut copy = DecodedCopy::new(coding, reader).expect("room for a copy");
            let firsts: usize =
                coded.chunks(step).map(|part| usize::from(copy.feed(part).expect("good bytes"))).sum();
            assert_eq!(firsts, 1, "{name} {step}");
            copy.finish();
            let Reader::Stream(observer) = &copy.reader else { unreachable!() };
            assert_eq!((observer.events(), observer.ended()), (20, true), "{name} {step}");
        }
        // Flushed events are there before the rest of the stream is.
        for (n, end) in ends.iter().enumerate() {
            let reader = Reader::Stream(Observer::new(StreamKind::Chat, false));
            let mut copy = DecodedCopy::new(coding, reader).expect("room for a copy");
            copy.feed(&coded[..*end]).expect("good bytes");
            let Reader::Stream(observer) = &copy.reader else { unreachable!() };
            assert_eq!(observer.complete(), n as u64 + 1, "{name} after {n}");
        }
    }
}

#[test]
fn a_copy_that_cannot_be_decoded_says_so() {
    for name in ["gzip", "deflate", "zstd", "br"] {
        let coding = Coding::of(name.as_bytes()).expect("a coding");
        let whole = || Reader::Whole(Box::new(AnswerScan::new()));
        let mut copy = DecodedCopy::new(coding, whole()).expect("room for a copy");
        assert!(
            copy.feed(b"\xfe\xfe\xfe\xfe this is not coded at all, whatever its head says").is_err(),
            "{name}"
        );
        let mut copy = DecodedCopy::new(coding, whole()).expect("room for a copy");
        let bomb = encode(name, &vec![b' '; 6 << 20]);
        assert!(copy.feed(&bomb).is_err(), "{name}: six megabytes of one read");
    }
}

#[test]
fn copies_of_a_thread_are_bounded_and_given_back() {
    let open = || DecodedCopy::new(Coding::Gzip, Reader::Whole(Box::new(AnswerScan::new())));
    let mut all: Vec<_> = std::iter::from_fn(open).take(1000).collect();
    assert_eq!(all.len(), 128);
    all.pop();
    assert!(open().is_some());
}
