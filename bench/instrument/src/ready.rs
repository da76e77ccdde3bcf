//! Waits until a candidate answers a completion: up, and with a replica that it takes for healthy.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use mio::{Events, Poll};

use crate::answers::MODEL;

#[derive(clap::Args)]
pub struct Settings {
    /// Where the candidate listens.
    #[arg(long)]
    to: SocketAddr,
    /// Seconds to wait at most.
    #[arg(long, default_value_t = 60.0)]
    within: f64,
}

/// Returns when the candidate is ready. Errors: the time is up; the last answer is told.
pub fn wait(settings: &Settings) -> Result<()> {
    let until = Instant::now() + Duration::from_secs_f64(settings.within);
    let (mut poll, mut events) = (Poll::new()?, Events::with_capacity(1));
    loop {
        let told = match ask(settings.to) {
            Ok(answer) if answer.starts_with("HTTP/1.1 200") => return Ok(()),
            Ok(answer) => answer.lines().next().unwrap_or("an empty answer").to_owned(),
            Err(error) => error.to_string(),
        };
        if Instant::now() > until {
            bail!("no completion from {} within {} s: {told}", settings.to, settings.within);
        }
        // Nothing is registered: this only lets time pass.
        poll.poll(&mut events, Some(Duration::from_millis(20)))?;
    }
}

fn ask(to: SocketAddr) -> std::io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&to, Duration::from_secs(1))?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    let body = format!(
        "{{\"model\":\"{MODEL}\",\"max_tokens\":1,\"messages\":[{{\"role\":\"user\",\"content\":\"Ready?\"}}]}}"
    );
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {to}\r\ncontent-type: application/json\r\n\
         authorization: Bearer sk-test-0123456789abcdef0123456789abcdef\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all((head + &body).as_bytes())?;
    let mut bytes = vec![0; 4096];
    let length = socket.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
}
