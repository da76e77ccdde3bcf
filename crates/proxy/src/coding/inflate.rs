//! gzip (RFC 1952), zlib (RFC 1950) and raw deflate (RFC 1951).

use flate2::{Decompress, FlushDecompress, Status};

use super::decoder::{Corrupt, INVALID, Progress, TRAILING};

/// Log of deflate's only window size that matters: 32 KiB.
const WINDOW_LOG: u8 = 15;
/// Most members of one gzip body. Each costs a decoder; writers of many (bgzip) put 64 KiB into each.
const MAX_MEMBERS: u32 = 4096;
/// First byte of a gzip member.
const GZIP_MAGIC: u8 = 0x1f;
/// Low half of the first byte of a zlib stream: the method, deflate. In raw deflate the same bits would begin a
/// stored block with padding that is not zero, which no writer makes.
const ZLIB_METHOD: u8 = 8;

/// One body in a format around deflate.
pub(super) struct Inflate {
    /// `None`: not known before the first byte.
    decoder: Option<Decompress>,
    gzip: bool,
    members: u32,
    ended: bool,
}

impl Inflate {
    pub(super) fn gzip() -> Self {
        Self { decoder: None, gzip: true, members: 0, ended: false }
    }

    pub(super) fn deflate() -> Self {
        Self { decoder: None, gzip: false, members: 0, ended: false }
    }

    pub(super) fn at_end(&self) -> bool {
        self.ended
    }

    pub(super) fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<Progress, Corrupt> {
        let decoder = match (&mut self.decoder, input) {
            (Some(decoder), _) if !self.ended => decoder,
            (_, []) => return Ok(Progress::default()),
            (slot, [first, ..]) => {
                if self.ended && !(self.gzip && *first == GZIP_MAGIC) {
                    return Err(TRAILING);
                }
                if self.members == MAX_MEMBERS {
                    return Err(Corrupt("it has too many members"));
                }
                self.members += 1;
                self.ended = false;
                slot.insert(if self.gzip {
                    Decompress::new_gzip(WINDOW_LOG)
                } else {
                    Decompress::new(first & 0x0f == ZLIB_METHOD)
                })
            }
        };
        let (read, written) = (decoder.total_in(), decoder.total_out());
        let status = decoder.decompress(input, out, FlushDecompress::None).map_err(|_| INVALID)?;
        self.ended = status == Status::StreamEnd;
        // Both are at most the lengths of the slices.
        let since = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(usize::MAX);
        Ok(Progress { read: since(decoder.total_in(), read), written: since(decoder.total_out(), written) })
    }
}
