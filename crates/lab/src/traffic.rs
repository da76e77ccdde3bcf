//! Closed-loop chat traffic over HTTP, as `sluicegate demo` shows it: conversations that grow turn by turn, shared system
//! prompts, now and then a heavy prompt.
//!
//! As many conversations run at a time as the configuration says, each with at most one request in flight; a conversation
//! that is over is followed by a new one. What is sent follows from the seed alone; when it is sent follows from the
//! answers.

mod conversation;
mod exchange;
mod totals;

pub use totals::Totals;

use crate::client::{BadTarget, Endpoint};
use crate::rng::SeededRng;
use conversation::Conversation;
use exchange::exchange;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What to send where.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficConfig {
    /// `http://host:port`, without a path.
    pub base_url: String,
    /// The model asked for.
    pub model: String,
    /// Sent as `Authorization: Bearer`.
    pub api_key: Option<String>,
    /// Conversations at a time: the bound on requests in flight.
    pub sessions: usize,
    /// Turns of a conversation: uniform in this inclusive range.
    pub turns: (u32, u32),
    /// Distinct system prompts, shared by all conversations; 0: none has one.
    pub shared_system_prompts: usize,
    /// Bytes of a system prompt.
    pub system_prompt_bytes: usize,
    /// Bytes of a user message: exponentially distributed with this mean.
    pub user_bytes: usize,
    /// The part of turns with a heavy message, 0 to 1.
    pub heavy_share: f64,
    /// Bytes of a heavy message.
    pub heavy_bytes: usize,
    /// A conversation whose next message could take it above so many bytes is over; keeps it inside the model's context.
    pub max_conversation_bytes: usize,
    /// Tokens of an answer, at most.
    pub max_tokens: u32,
    /// Pause before a turn: exponentially distributed with this mean.
    pub think_time: Duration,
    /// Decides everything that is random.
    pub seed: u64,
}

impl Default for TrafficConfig {
    fn default() -> Self {
        Self {
            base_url: "http://127.0.0.1:8080".to_owned(),
            model: "sim".to_owned(),
            api_key: None,
            sessions: 24,
            turns: (2, 12),
            shared_system_prompts: 4,
            system_prompt_bytes: 6_000,
            user_bytes: 600,
            heavy_share: 0.02,
            heavy_bytes: 120_000,
            max_conversation_bytes: 360_000,
            max_tokens: 256,
            think_time: Duration::from_millis(500),
            seed: 0,
        }
    }
}

/// Running traffic. Dropping it stops it.
#[derive(Debug)]
pub struct Traffic {
    totals: Arc<Mutex<Totals>>,
    stop: watch::Sender<()>,
    sessions: JoinSet<()>,
}

impl Traffic {
    /// Starts sending. Must be called inside a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// The base URL is not a plain `http://` one, or the key no word.
    pub fn start(config: TrafficConfig) -> Result<Self, BadTarget> {
        let endpoint = Endpoint::new(&config.base_url, config.api_key.as_deref())?;
        let totals = Arc::new(Mutex::new(Totals::default()));
        let (stop, stopped) = watch::channel(());
        let config = Arc::new(config);
        let mut sessions = JoinSet::new();
        for index in 0..config.sessions {
            let session = Session {
                config: Arc::clone(&config),
                endpoint: endpoint.clone(),
                totals: Arc::clone(&totals),
                rng: SeededRng::stream(config.seed, index as u64),
                index,
            };
            let mut stopped = stopped.clone();
            sessions.spawn(async move {
                tokio::select! {
                    // An error says that the sender is gone: stopped just as well.
                    _ = stopped.changed() => {}
                    () = session.run() => {}
                }
            });
        }
        Ok(Self { totals, stop, sessions })
    }

    /// What has happened so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops at once and returns what had happened; requests in flight are broken off and counted as such.
    pub async fn stop(self) -> Totals {
        let Self { totals, stop, mut sessions } = self;
        drop(stop);
        while sessions.join_next().await.is_some() {}
        totals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One of the places for a conversation.
struct Session {
    config: Arc<TrafficConfig>,
    endpoint: Endpoint,
    totals: Arc<Mutex<Totals>>,
    rng: SeededRng,
    index: usize,
}

impl Session {
    async fn run(mut self) {
        for number in 0_u64.. {
            let name = format!("demo-{}-{number}", self.index);
            let mut conversation = Conversation::new(&self.config, &mut self.rng);
            let (least, most) = self.config.turns;
            let turns = u64::from(least) + self.rng.below(u64::from(most.saturating_sub(least)) + 1);
            for turn in 0..turns.max(1) {
                if turn > 0
                    && conversation.bytes() + self.config.heavy_bytes > self.config.max_conversation_bytes
                {
                    break;
                }
                let pause = self.rng.exponential(self.config.think_time.as_secs_f64());
                tokio::time::sleep(Duration::from_secs_f64(pause)).await;
                let body = conversation.ask(&self.config, &mut self.rng);
                let outcome = exchange(&self.endpoint, &name, body, &self.totals).await;
                // Without its answer a conversation cannot go on.
                let Some(answer) = outcome else { break };
                conversation.answered(&answer);
            }
        }
    }
}

#[cfg(test)]
mod tests;
