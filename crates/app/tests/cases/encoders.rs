//! Bodies in the content codings of HTTP.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use zstd_safe::zstd_sys::ZSTD_EndDirective::{self, ZSTD_e_end, ZSTD_e_flush};
use zstd_safe::{CCtx, InBuffer, OutBuffer};

/// What a `Content-Encoding` field may say, each with the encoder's name.
pub(crate) const CODINGS: [(&str, &str); 6] = [
    ("gzip", "gzip"),
    ("X-GZip", "gzip"),
    ("deflate", "deflate"),
    ("deflate", "raw deflate"),
    ("zstd", "zstd"),
    ("br", "br"),
];

/// Codes `body` whole.
pub(crate) fn encode(encoder: &str, body: &[u8]) -> Vec<u8> {
    pieces(encoder, &[body]).concat()
}

/// The coded bytes of each part, flushed so that it can be decoded before the next is there; then the end.
pub(crate) fn pieces(encoder: &str, parts: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
    let sink = Sink::default();
    let to = sink.clone();
    let mut encoder: Box<dyn Write> = match encoder {
        "gzip" => Box::new(GzEncoder::new(to, Compression::fast())),
        "deflate" => Box::new(ZlibEncoder::new(to, Compression::fast())),
        "raw deflate" => Box::new(DeflateEncoder::new(to, Compression::fast())),
        "br" => Box::new(brotli::CompressorWriter::new(to, 4096, 1, 20)),
        "zstd" => return zstd_pieces(parts),
        other => panic!("no encoder {other}"),
    };
    let mut pieces = Vec::new();
    for part in parts {
        encoder.write_all(part.as_ref()).expect("a vector takes all");
        encoder.flush().expect("a vector takes all");
        pieces.push(sink.0.take());
    }
    drop(encoder);
    pieces.push(sink.0.take());
    pieces
}

fn zstd_pieces(parts: &[impl AsRef<[u8]>]) -> Vec<Vec<u8>> {
    let mut context = CCtx::create();
    let mut piece = |part: &[u8], how: ZSTD_EndDirective| {
        let mut buffer = vec![0; zstd_safe::compress_bound(part.len()) + 64];
        let mut to = OutBuffer::around(&mut buffer[..]);
        let left = context.compress_stream2(&mut to, &mut InBuffer::around(part), how);
        assert_eq!(left, Ok(0), "there is room");
        to.as_slice().to_vec()
    };
    let mut pieces: Vec<_> = parts.iter().map(|part| piece(part.as_ref(), ZSTD_e_flush)).collect();
    pieces.push(piece(b"", ZSTD_e_end));
    pieces
}

/// Where an encoder writes, to be emptied while it does.
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
