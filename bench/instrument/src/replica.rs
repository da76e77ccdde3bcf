//! A replica that costs next to nothing: JSON at once, or a stream at a steady pace.

mod asked;
mod connection;
mod pace;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use mio::event::Event;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use slab::Slab;

use crate::answers::{Answers, MODEL};
use crate::socket::{Received, SCRATCH, receive};
use connection::{Connection, Told};
use pace::Pace;

/// A prompt is held until its first token, so a slow one costs memory; how slow is a matter of the engine, not of what
/// is measured.
const FIRST_TOKEN: Duration = Duration::from_millis(50);
const LISTENER: Token = Token(usize::MAX);

#[derive(clap::Args)]
pub struct Settings {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8000")]
    listen: SocketAddr,
    /// The pace of each stream. The first token comes after one step or 50 ms, whatever is sooner.
    #[arg(long, default_value_t = 25.0)]
    tokens_per_second: f64,
}

/// Answers until it is ended from outside.
pub fn serve(settings: &Settings) -> Result<()> {
    let mut listener = TcpListener::bind(settings.listen)
        .with_context(|| format!("cannot listen on {}", settings.listen))?;
    let poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let step = Duration::from_secs_f64(1.0 / settings.tokens_per_second.max(0.001));
    let mut replica = Replica {
        poll,
        listener,
        connections: Slab::new(),
        pace: Pace::new(step.min(FIRST_TOKEN), step),
        answers: Answers::new(),
        scratch: vec![0; SCRATCH],
    };
    let mut events = Events::with_capacity(1024);
    loop {
        let timeout = replica.pace.until_next(Instant::now());
        match replica.poll.poll(&mut events, timeout) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        replica.send_tokens(Instant::now());
        for event in &events {
            replica.handle(event);
        }
    }
}

struct Replica {
    poll: Poll,
    listener: TcpListener,
    connections: Slab<Connection>,
    pace: Pace,
    answers: Answers,
    scratch: Vec<u8>,
}

impl Replica {
    fn handle(&mut self, event: &Event) {
        if event.token() == LISTENER {
            self.accept();
            return;
        }
        let key = event.token().0;
        let Some(connection) = self.connections.get_mut(key) else { return };
        let mut open = !event.is_writable() || connection.flush().is_ok();
        if open && event.is_readable() {
            open = self.read(key);
        }
        if !open {
            self.connections.try_remove(key);
        }
    }

    fn accept(&mut self) {
        while let Ok((mut socket, _)) = self.listener.accept() {
            let entry = self.connections.vacant_entry();
            let token = Token(entry.key());
            let both = Interest::READABLE | Interest::WRITABLE;
            if socket.set_nodelay(true).is_ok()
                && self.poll.registry().register(&mut socket, token, both).is_ok()
            {
                entry.insert(Connection::new(socket));
            }
        }
    }

    /// Whether the connection stays.
    fn read(&mut self, key: usize) -> bool {
        loop {
            let Some(connection) = self.connections.get_mut(key) else { return false };
            let length = match receive(&mut connection.socket, &mut self.scratch) {
                Received::Bytes(length) => length,
                Received::Nothing => return true,
                Received::Closed => return false,
            };
            let mut input = &self.scratch[..length];
            while !input.is_empty() {
                let Ok((told, used)) = connection.read(input) else { return false };
                input = &input[used..];
                let sent = match told {
                    Told::Nothing => Ok(()),
                    Told::Page(path) => connection.send(page(&path, self.pace.len()).as_bytes()),
                    Told::Completion { received } => connection.send(self.answers.json(received)),
                    Told::Stream => {
                        connection.stream_id = self.pace.begin(key, Instant::now());
                        Ok(())
                    }
                };
                if sent.is_err() {
                    return false;
                }
            }
            if length < SCRATCH {
                return true;
            }
        }
    }

    fn send_tokens(&mut self, now: Instant) {
        while let Some(due) = self.pace.pop(now) {
            let connection = self.connections.get_mut(due.key).filter(|one| one.stream_id == due.stream_id);
            let Some(connection) = connection else { continue };
            match connection.token(&self.answers) {
                Ok(true) => self.pace.again(due),
                Ok(false) => {}
                Err(_) => drop(self.connections.try_remove(due.key)),
            }
        }
    }
}

/// What engines show besides completions: enough for a gateway to take this for a healthy vLLM or SGLang.
fn page(path: &str, running: usize) -> String {
    let (kind, body) = match path.split('?').next().unwrap_or_default() {
        "/metrics" => ("text/plain; version=0.0.4", metrics(running)),
        "/v1/models" => (
            "application/json",
            format!(
                "{{\"object\":\"list\",\"data\":[{{\"id\":\"{MODEL}\",\"object\":\"model\",\"created\":1700000000,\
                 \"owned_by\":\"instrument\",\"max_model_len\":131072}}]}}"
            ),
        ),
        "/get_model_info" | "/model_info" | "/get_server_info" | "/server_info" => (
            "application/json",
            format!(
                "{{\"model_path\":\"{MODEL}\",\"tokenizer_path\":\"{MODEL}\",\"served_model_name\":\"{MODEL}\",\
                 \"is_generation\":true}}"
            ),
        ),
        _ => ("text/plain", String::new()),
    };
    format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn metrics(running: usize) -> String {
    format!(
        "# TYPE vllm:num_requests_running gauge\n\
         vllm:num_requests_running{{model_name=\"{MODEL}\"}} {running}.0\n\
         # TYPE vllm:num_requests_waiting gauge\n\
         vllm:num_requests_waiting{{model_name=\"{MODEL}\"}} 0.0\n\
         # TYPE vllm:kv_cache_usage_perc gauge\n\
         vllm:kv_cache_usage_perc{{model_name=\"{MODEL}\"}} 0.1\n"
    )
}
