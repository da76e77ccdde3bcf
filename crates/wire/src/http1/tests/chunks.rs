use crate::http1::{
    ChunkDecoder, Decoded, HeadError, MAX_CHUNK_EXTENSION, MAX_EXTENSIONS, MAX_TRAILERS, chunk_head,
};

/// Decodes pieces as reads would bring them. Payload, bytes consumed, and whether the end was read.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<(Vec<u8>, usize, bool), HeadError> {
    let mut decoder = ChunkDecoder::new();
    let (mut payload, mut used, mut done) = (Vec::new(), 0, false);
    for piece in pieces {
        let mut buf = piece.to_vec();
        let decoded = decoder.decode(&mut buf)?;
        assert_eq!(buf[decoded.consumed..], piece[decoded.consumed..], "what follows is untouched");
        assert!(decoded.done || decoded.consumed == piece.len());
        payload.extend_from_slice(&buf[..decoded.payload]);
        used += decoded.consumed;
        done = decoded.done;
    }
    Ok((payload, used, done))
}

const BODIES: [(&str, &str); 5] = [
    ("0\r\n\r\n", ""),
    ("5\r\nhello\r\n0\r\n\r\n", "hello"),
    ("1\r\na\r\n02;x=\"a;\\\"\"\r\n\r\n\r\n0a\r\n0123456789\r\n0;y\r\nX: z\r\nY:\r\n\r\n", "a\r\n0123456789"),
    ("B\r\n\r\n0\r\n\r\n\r\n\r\n\r\n000\r\n\r\n", "\r\n0\r\n\r\n\r\n\r\n"),
    ("000000000000000f;q\r\ndata: [DONE]\r\n\r\r\n0\r\nTrailer-Name: \tvalue \r\n\r\n", "data: [DONE]\r\n\r"),
];

#[test]
fn every_split_in_three_gives_the_same_payload() {
    for (body, payload) in BODIES {
        let bytes = body.as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let expected = Ok((payload.as_bytes().to_vec(), bytes.len(), true));
                assert_eq!(
                    decode(pieces.into_iter().filter(|piece| !piece.is_empty())),
                    expected,
                    "{body:?} {first} {second}"
                );
            }
        }
        assert_eq!(decode(bytes.chunks(1)), Ok((payload.as_bytes().to_vec(), bytes.len(), true)));
    }
}

#[test]
fn what_follows_the_end_is_left_alone() {
    let mut buf = b"2\r\nhi\r\n0\r\n\r\nGET / HTTP/1.1\r\n".to_vec();
    let mut decoder = ChunkDecoder::new();
    assert_eq!(decoder.decode(&mut buf), Ok(Decoded { consumed: 12, payload: 2, done: true }));
    assert_eq!(&buf[12..], b"GET / HTTP/1.1\r\n");
    assert_eq!(decoder.decode(&mut buf), Ok(Decoded { consumed: 0, payload: 0, done: true }));
}

#[test]
fn a_malformed_body_is_refused_in_any_split() {
    let cases = [
        ("\r\n", "malformed chunk size"),
        (";x\r\n", "malformed chunk size"),
        ("g\r\n", "malformed chunk size"),
        ("5 \r\nhello", "malformed chunk size"),
        ("5\nhello", "malformed chunk size"),
        ("0x5\r\nhello", "malformed chunk size"),
        ("-1\r\n", "malformed chunk size"),
        ("10000000000000000\r\n", "chunk size too long"),
        ("00000000000000000\r\n", "chunk size too long"),
        ("5\rhello", "a lone CR in the chunked coding"),
        ("5;x\rhello", "a lone CR in the chunked coding"),
        ("5;x\nhello", "a control byte in a chunk extension"),
        ("5;x=\"\r\n\"", "a control byte in a chunk extension"),
        ("5;x=\"\\\r\n", "a control byte in a chunk extension"),
        ("5;\0\r\n", "a control byte in a chunk extension"),
        ("5\r\nhello\n0", "a chunk is longer than its size"),
        ("5\r\nhello!", "a chunk is longer than its size"),
        ("5\r\nhello\rX", "a chunk is longer than its size"),
        ("0\r\n\n", "malformed trailer"),
        ("0\r\n\rX", "a lone CR in the chunked coding"),
        ("0\r\n X: y\r\n\r\n", "malformed trailer"),
        ("0\r\nX : y\r\n\r\n", "malformed trailer"),
        ("0\r\nX\r\n\r\n", "malformed trailer"),
        ("0\r\nX: y\n\r\n", "malformed trailer"),
        ("0\r\nX: y\rz", "a lone CR in the chunked coding"),
        ("0\r\nX: \0\r\n\r\n", "malformed trailer"),
    ];
    for (body, what) in cases {
        assert_eq!(decode([body.as_bytes()]), Err(HeadError::Bad(what)), "{body:?}");
        assert_eq!(decode(body.as_bytes().chunks(1)), Err(HeadError::Bad(what)), "{body:?}");
    }
}

#[test]
fn extensions_and_trailers_are_bounded() {
    let extension = |len: usize| format!("1;{}\r\nx\r\n", "e".repeat(len));
    let whole = |body: String| decode([body.as_bytes()]).map(|(payload, _, _)| payload.len());
    assert_eq!(whole(extension(MAX_CHUNK_EXTENSION)), Ok(1));
    assert_eq!(whole(extension(MAX_CHUNK_EXTENSION + 1)), Err(HeadError::Bad("chunk extensions too long")));
    let many = MAX_EXTENSIONS / 1000;
    assert_eq!(whole(extension(1000).repeat(many)), Ok(many));
    assert_eq!(whole(extension(1000).repeat(many + 1)), Err(HeadError::Bad("chunk extensions too long")));
    let trailers =
        |count: usize, len: usize| format!("0\r\n{}\r\n", format!("X:{}\r\n", "t".repeat(len)).repeat(count));
    assert_eq!(whole(trailers(100, 100)), Ok(0));
    assert_eq!(whole(trailers(101, 1)), Err(HeadError::Bad("too many trailers")));
    assert_eq!(whole(trailers(1, MAX_TRAILERS)), Err(HeadError::Bad("trailer section too long")));
}

#[test]
fn a_size_of_64_bits_is_counted_down_and_never_overflows() {
    let mut decoder = ChunkDecoder::new();
    let mut buf = b"ffffffffffffffff\r\nabc".to_vec();
    assert_eq!(decoder.decode(&mut buf), Ok(Decoded { consumed: 21, payload: 3, done: false }));
    assert_eq!(&buf[..3], b"abc");
}

#[test]
fn a_chunk_head_is_what_the_decoder_reads() {
    for len in [1, 9, 15, 16, 255, 256, 4096, 70_000, usize::MAX] {
        let mut out = [0; 18];
        let used = chunk_head(len, &mut out);
        assert_eq!(&out[..used], format!("{len:x}\r\n").as_bytes());
    }
    let mut out = [0; 18];
    assert_eq!(chunk_head(0, &mut out), 3);
    assert_eq!(&out[..3], b"0\r\n");
}
