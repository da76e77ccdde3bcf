//! A closed loop: each connection sends its next request when the last one is answered.

mod connection;
mod report;
mod request;
mod window;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::socket::{Received, SCRATCH, receive};
use connection::{Connection, Progress};
use request::Request;
use window::Window;

/// Errors after which a run tells nothing any more.
const MAX_ERRORS: u64 = 2000;

#[derive(clap::Args)]
pub struct Settings {
    /// Where the candidate listens.
    #[arg(long)]
    to: SocketAddr,
    /// The candidate's process: its CPU and memory are read, those of its children included.
    #[arg(long)]
    pid: Option<u32>,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Bytes of a request's body.
    #[arg(long, default_value_t = 1024)]
    body: usize,
    /// Asks for streams of so many tokens; 0 asks for JSON.
    #[arg(long, default_value_t = 0)]
    tokens: u32,
    /// Mixed sizes from 1 KiB to 1 MiB, each third connection streams: instead of --body.
    #[arg(long)]
    mixed: bool,
    /// Seconds over which the connections are opened.
    #[arg(long, default_value_t = 0.0)]
    ramp: f64,
    /// Seconds from the start that are not measured.
    #[arg(long, default_value_t = 0.4)]
    warm: f64,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 2.5)]
    seconds: f64,
    /// Seconds between two looks at the candidate's memory.
    #[arg(long, default_value_t = 0.25)]
    sample: f64,
}

/// Runs and prints the report, one line of JSON. Errors: it cannot connect, or nearly nothing is answered well.
pub fn run(settings: &Settings) -> Result<()> {
    let window = Window::new(settings.pid, Instant::now(), settings)?;
    let requests = request::all(settings);
    let mut load = Load {
        poll: Poll::new()?,
        connections: Vec::with_capacity(settings.connections),
        requests,
        window,
        to: settings.to,
        scratch: vec![0; SCRATCH],
    };
    load.drive(settings)?;
    println!("{}", serde_json::to_string(&load.window.report(settings))?);
    Ok(())
}

struct Load {
    poll: Poll,
    connections: Vec<Connection>,
    requests: Vec<Request>,
    window: Window,
    to: SocketAddr,
    scratch: Vec<u8>,
}

impl Load {
    fn drive(&mut self, settings: &Settings) -> Result<()> {
        let begun = Instant::now();
        let mut events = Events::with_capacity(1024);
        loop {
            let now = Instant::now();
            let since = now.duration_since(begun).as_secs_f64();
            self.open_due(settings, since)?;
            if !self.window.pass(now) {
                return Ok(());
            }
            if self.window.errors > MAX_ERRORS {
                bail!("{MAX_ERRORS} requests failed, the first with: {}", self.window.first_error());
            }
            let ramping = self.connections.len() < settings.connections;
            let timeout = Duration::from_millis(if ramping { 1 } else { 20 });
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(error.into()),
                _ => {}
            }
            let now = Instant::now();
            for event in &events {
                self.handle(event, now);
            }
        }
    }

    fn open_due(&mut self, settings: &Settings, since: f64) -> Result<()> {
        let share = if settings.ramp > 0.0 { (since / settings.ramp).min(1.0) } else { 1.0 };
        let due = ((settings.connections as f64 * share) as usize).max(1);
        while self.connections.len() < due {
            let place = self.connections.len();
            let socket = self.connect(place)?;
            self.connections.push(Connection::new(socket, place % self.requests.len(), Instant::now()));
        }
        Ok(())
    }

    fn connect(&self, place: usize) -> Result<TcpStream> {
        let mut socket = TcpStream::connect(self.to)?;
        socket.set_nodelay(true)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut socket, Token(place), both)?;
        Ok(socket)
    }

    fn handle(&mut self, event: &Event, now: Instant) {
        let place = event.token().0;
        let Some(connection) = self.connections.get_mut(place) else { return };
        let mut outcome = Ok(false);
        if event.is_writable() {
            outcome = connection.write(&self.requests).map(|()| false);
        }
        if outcome.is_ok() && event.is_readable() {
            outcome = self.read(place, now);
        }
        match outcome {
            Ok(false) => {}
            Ok(true) => self.reopen(place),
            Err(error) => {
                self.window.failed(&error);
                self.reopen(place);
            }
        }
    }

    /// Whether the connection ends with this answer.
    fn read(&mut self, place: usize, now: Instant) -> Result<bool> {
        let connection = &mut self.connections[place];
        loop {
            let length = match receive(&mut connection.socket, &mut self.scratch) {
                Received::Bytes(length) => length,
                Received::Nothing => return Ok(false),
                Received::Closed => bail!("the connection was closed before the answer was whole"),
            };
            let (progress, tokens) = connection.read(&self.scratch[..length], &self.requests, now)?;
            self.window.tokens(tokens);
            if let Progress::Answered(answered) = progress {
                let closes = answered.closes;
                self.window.answered(&answered);
                if closes {
                    return Ok(true);
                }
                connection.begin(Instant::now());
                connection.write(&self.requests)?;
            }
            if length < SCRATCH {
                return Ok(false);
            }
        }
    }

    fn reopen(&mut self, place: usize) {
        match self.connect(place) {
            Ok(socket) => {
                self.connections[place] =
                    Connection::new(socket, place % self.requests.len(), Instant::now());
            }
            Err(error) => self.window.failed(&error),
        }
    }
}
