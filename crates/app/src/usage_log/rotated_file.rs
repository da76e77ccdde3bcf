//! A file of usage lines that is rotated by size.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Rotated files kept beside the current one: `NAME.1` (the newest) to `NAME.9`; the oldest is removed.
const KEPT: u32 = 9;

/// Appends to a file, and starts a new one when the next write would take it over its limit. Writes are whole
/// lines, so a line never spans two files.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    file: File,
    length: u64,
    limit: u64,
}

impl RotatedFile {
    /// Opens or creates `path` for appending. `limit` in bytes; 0 never rotates.
    pub(super) fn open(path: &Path, limit: u64) -> io::Result<Self> {
        let file = append_to(path)?;
        let length = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, length, limit })
    }

    fn rotate(&mut self) -> io::Result<()> {
        for index in (1..KEPT).rev() {
            rename_if_there(&self.numbered(index), &self.numbered(index + 1))?;
        }
        rename_if_there(&self.path, &self.numbered(1))?;
        self.file = append_to(&self.path)?;
        self.length = 0;
        Ok(())
    }

    fn numbered(&self, index: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{index}"));
        name.into()
    }
}

impl Write for RotatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let more = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.limit > 0 && self.length > 0 && self.length.saturating_add(more) > self.limit {
            self.rotate()?;
        }
        self.length += more;
        self.file.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
