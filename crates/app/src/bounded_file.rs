//! Files that people name, read no further than their kind can be long: a device, a pipe or the wrong file must not fill
//! the memory.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Configurations, profiles, scenarios, secrets.
pub(crate) const WRITTEN_BY_HAND: u64 = 4 << 20;
/// Recordings and requests.
pub(crate) const RECORDED: u64 = 256 << 20;

/// The whole file.
///
/// # Errors
/// It cannot be read, or is longer than `most` bytes.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if read as u64 > most {
        return Err(io::Error::other(format!("it is longer than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// Those of [`read`], and bytes that are no UTF-8.
pub(crate) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::other(format!("it is no text: not UTF-8 from byte {at} on"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_up_to_its_bound_and_no_further() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "four");
        assert!(read(&path, 3).unwrap_err().to_string().contains("longer than"));
        std::fs::write(&path, [b'a', 0xff]).unwrap();
        assert!(read_text(&path, 4).unwrap_err().to_string().contains("byte 1"));
    }
}
