//! `sluicegate check`: what a configuration file says, or all that is wrong with it.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;

use rustix::fs::Access;

use super::{CheckArgs, Failure, print};
use crate::config::Config;

pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let mut loaded =
        Config::load(Some(&args.file), &args.flags.overrides()).map_err(Failure::Configuration)?;
    if let Some(path) = &loaded.usage.file
        && let Err(error) = writable(path)
    {
        let (at, path, hint) = (&loaded.usage.file_named, path.display(), mend(&error));
        let warning =
            format!("{at}: usage lines could not be written to {path} here and now: {error}; {hint}");
        loaded.warnings.push(warning);
    }
    print(&loaded.summary())
}

fn mend(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make its folder, or name another one",
        io::ErrorKind::PermissionDenied => "check as the user that the gateway runs as",
        _ => "name another file",
    }
}

/// Whether usage lines could be appended to `path`. Nothing is made that is not there: the file may belong to another
/// user, whose gateway must still be able to make it.
fn writable(path: &Path) -> io::Result<()> {
    match OpenOptions::new().append(true).open(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = std::fs::metadata(folder)?;
    if !found.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}
