//! Running other programs so that a failure names the command a person can paste.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The cargo that runs us; plain `cargo` when started by hand.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs with the terminal attached. Errors: cannot start, or a non-zero end.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let line = shown(&command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs and returns standard output; standard error goes to the terminal. Errors as [`run`].
pub(crate) fn output(mut command: Command) -> Result<Vec<u8>> {
    let line = shown(&command);
    let output =
        command.stderr(Stdio::inherit()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` failed ({})", output.status);
    }
    Ok(output.stdout)
}

/// The command as a person would type it, its own environment settings in front.
fn shown(command: &Command) -> String {
    let mut words: Vec<String> = command
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}='{}'", name.to_str()?, value?.to_str()?)))
        .collect();
    let program = Path::new(command.get_program());
    words.push(program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned());
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
