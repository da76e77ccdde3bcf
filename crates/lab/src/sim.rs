//! The replica model in real time behind HTTP: a vLLM 0.32 look-alike.
//!
//! Each replica has its own port, model and cache. Paths: `/health`, `/ping`, `/version`, `/load`, `/metrics`,
//! `/v1/models`, `/v1/chat/completions`, `/v1/completions`, `/v1/messages`, `/v1/responses` and `/v1/responses/ID`,
//! `/v1/embeddings`, `/tokenize`, `/detokenize`; everything else is 404 or 405 as vLLM says it. Answers, errors and metrics
//! have vLLM's shapes, key order included.
//!
//! What is wrong with a replica can be switched while it runs: [`SimReplica::set_fault`], or `/sim/fault` over HTTP.
//!
//! Where vLLM has a choice: a stream refused because too many requests are in flight is always the harder of its two forms
//! (status 200, an error event, `[DONE]`) in the dialects that have it; a request that is not a stream gets the 503.
//! `X-Request-Id` names the answer but is not echoed (vLLM needs a flag for that), cached tokens are always reported (a flag
//! too), responses are kept (an environment variable), embeddings are made by the same model (vLLM: by an embedding model).

mod answer;
mod ask;
mod body;
mod embed;
mod exposition;
mod fault;
mod generate;
mod histogram;
mod metrics;
mod problem;
mod realtime;
mod routes;
mod server;
mod stored;
mod tokens;
mod wall_clock;

use crate::engine::{Counters, Profile};
use crate::fault::{Fault, FaultSpec};
use fault::{Board, Faults};
use server::Running;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many replicas to simulate, where, and of what kind.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Address of the first replica; the others take the following ports. Port 0: each gets a free one of its own.
    pub listen: SocketAddr,
    /// Number of replicas.
    pub replicas: usize,
    /// The served model's name.
    pub model: String,
    /// Limits and speed of each replica.
    pub profile: Profile,
    /// Tokens of prompt and answer together, at most; must fit the profile's KV blocks.
    pub max_model_len: u32,
    /// Tokens of an answer that neither its limit nor `ignore_eos` decides: spread evenly over the logarithm of this
    /// inclusive range, fixed by the prompt and `seed`.
    pub output_tokens: (u32, u32),
    /// Decides output lengths, output words and answer ids.
    pub seed: u64,
    /// An idle connection is closed after this time; uvicorn's default is 5 s.
    pub keep_alive: Duration,
    /// Bytes of a request body, at most; 413 above.
    pub max_body: usize,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            replicas: 1,
            model: "sim".to_owned(),
            profile: Profile::default(),
            max_model_len: 131_072,
            output_tokens: (16, 512),
            seed: 0,
            keep_alive: Duration::from_secs(5),
            max_body: 64 << 20,
        }
    }
}

/// Running simulated replicas. Dropping it stops them.
#[derive(Debug)]
pub struct Sim {
    replicas: Vec<SimReplica>,
}

impl Sim {
    /// Binds every port and starts serving. Must be called inside a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// A port that cannot be bound, a port number above 65535, or (`InvalidInput`) a `max_model_len` that does not fit the
    /// profile's KV blocks: vLLM does not start either.
    pub fn start(config: SimConfig) -> io::Result<Self> {
        let room = u64::from(config.profile.kv_blocks) * u64::from(config.profile.block_tokens.max(1));
        if u64::from(config.max_model_len) > room || config.max_model_len == 0 {
            let reason =
                format!("max_model_len {} does not fit a KV cache of {room} tokens", config.max_model_len);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        let config = Arc::new(config);
        let board = Arc::new(Board::new(config.replicas, config.seed));
        let replicas: io::Result<Vec<_>> =
            (0..config.replicas).map(|index| SimReplica::bind(&config, &board, index)).collect();
        Ok(Self { replicas: replicas? })
    }

    /// The addresses, in order of the replicas.
    #[must_use]
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.replicas.iter().map(SimReplica::addr).collect()
    }

    /// The replicas, one by one.
    #[must_use]
    pub fn replicas(&self) -> &[SimReplica] {
        &self.replicas
    }

    /// Ends all replicas as vLLM does at a SIGTERM: ports are closed, running answers end with `abort`, and it returns when
    /// the last client has its answer.
    pub async fn terminate(self) {
        for replica in &self.replicas {
            replica.set_fault(Fault::Sigterm).await;
        }
        for replica in &self.replicas {
            replica.faults.until_deserted().await;
        }
        self.shutdown().await;
    }

    /// Stops all replicas; every port is closed when it returns.
    pub async fn shutdown(self) {
        for replica in &self.replicas {
            replica.stop().await;
        }
    }
}

/// One simulated replica: a place that can be up or down.
#[derive(Debug)]
pub struct SimReplica {
    config: Arc<SimConfig>,
    board: Arc<Board>,
    faults: Arc<Faults>,
    index: usize,
    addr: SocketAddr,
    running: Mutex<Option<Running>>,
}

impl SimReplica {
    fn bind(config: &Arc<SimConfig>, board: &Arc<Board>, index: usize) -> io::Result<Self> {
        let wanted = replica_addr(config.listen, index)?;
        let faults = board.of(index).cloned().ok_or(io::ErrorKind::InvalidInput)?;
        let running = Running::start(Arc::clone(config), board, &faults, index, wanted)?;
        Ok(Self {
            config: Arc::clone(config),
            board: Arc::clone(board),
            faults,
            index,
            addr: running.addr(),
            running: Mutex::new(Some(running)),
        })
    }

    /// Where it listens (or listened, while stopped).
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Kills it: the port is closed and every connection cut when this returns. No effect on a stopped one.
    pub async fn stop(&self) {
        let running = self.lock().take();
        if let Some(running) = running {
            running.stop().await;
        }
    }

    /// Starts a stopped one again on its port, with an empty cache and counters at 0. No effect on a running one.
    ///
    /// # Errors
    /// The port cannot be bound any more.
    pub fn start(&self) -> io::Result<()> {
        let mut running = self.lock();
        if running.is_none() {
            let config = Arc::clone(&self.config);
            *running = Some(Running::start(config, &self.board, &self.faults, self.index, self.addr)?);
        }
        Ok(())
    }

    /// What its metrics would say now; `None` while stopped.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.lock().as_ref().map(|running| *running.counters().borrow())
    }

    /// Waits until its counters fulfil the condition; `None` where it is stopped first.
    pub async fn until(&self, condition: impl FnMut(&Counters) -> bool) -> Option<Counters> {
        let mut counters = self.lock().as_ref()?.counters();
        let seen = counters.wait_for(condition).await.ok()?;
        Some(*seen)
    }

    /// Switches a fault on, in place of one of the same kind; it is in force when this returns. A stopped replica has it
    /// when it is started again. [`Fault::Unreachable`] changes nothing here.
    pub async fn set_fault(&self, fault: impl Into<FaultSpec>) {
        self.faults.set(fault.into());
        self.faults.settled().await;
    }

    /// Switches all faults off; requests that one of them held go on. It is done when this returns.
    pub async fn clear_faults(&self) {
        self.faults.clear(None);
        self.faults.settled().await;
    }

    /// The faults that are switched on, in that order; one for the next requests only stays when it is used up.
    #[must_use]
    pub fn faults(&self) -> Vec<FaultSpec> {
        self.faults.list()
    }

    /// Waits until it takes connections, or does not.
    pub async fn until_listening(&self, listening: bool) {
        self.faults.until_listening(listening).await;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Port 0 stays 0; others count up.
fn replica_addr(first: SocketAddr, index: usize) -> io::Result<SocketAddr> {
    if first.port() == 0 {
        return Ok(first);
    }
    let port = u16::try_from(index).ok().and_then(|index| first.port().checked_add(index));
    let beyond = || io::Error::new(io::ErrorKind::InvalidInput, "a replica's port would be above 65535");
    Ok(SocketAddr::new(first.ip(), port.ok_or_else(beyond)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_take_consecutive_ports_or_free_ones() {
        let port =
            |listen: &str, index| replica_addr(listen.parse().unwrap(), index).map(|addr| addr.port()).ok();
        assert_eq!([port("127.0.0.1:9000", 0), port("127.0.0.1:9000", 3)], [Some(9000), Some(9003)]);
        assert_eq!([port("[::1]:65534", 1), port("[::1]:65534", 2)], [Some(65535), None]);
        assert_eq!(port("127.0.0.1:0", 5), Some(0));
    }
}
