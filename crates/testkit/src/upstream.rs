//! A replica that does exactly what its script says, byte for byte, on a port of its own.

mod play;
mod probes;
mod script;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use crate::gate::Count;
use crate::message::Head;

pub use probes::Load;
pub use script::{OnHead, Step, send};

type Handler = dyn Fn(&Received) -> Vec<Step> + Send + Sync;
type HeadHandler = dyn Fn(&Head) -> OnHead + Send + Sync;
type ProbeHandler = dyn Fn(&Head) -> Option<Vec<Step>> + Send + Sync;

/// A complete request as it arrived. Probes (`/health`, `/metrics`, `/v1/models`) are counted, and of each path the
/// latest head is kept.
#[derive(Clone, Debug)]
pub struct Received {
    /// Which connection brought it, counted from 0 in the order of their acceptance.
    pub connection: u64,
    /// Which request of this replica it is, counted from 0 in the order of their completion.
    pub index: u64,
    /// The head.
    pub head: Head,
    /// The body, framing removed.
    pub body: Vec<u8>,
}

impl Received {
    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// It is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {:?}", self.text()))
    }
}

/// Numbers a test can wait for.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Complete requests received.
    pub requests: Count,
    /// Heads of requests received, whether or not their bodies followed.
    pub heads: Count,
    /// Requests being answered now.
    pub open: Count,
    /// Requests whose script was played to its end.
    pub played: Count,
    /// Requests whose peer left before their script was at its end.
    pub gone: Count,
    /// Requests whose peer left in mid-body.
    pub partial: Count,
    /// Connections accepted.
    pub connections: Count,
    /// Connections open now.
    pub open_connections: Count,
    /// `GET /health` received.
    pub health_probes: Count,
    /// `GET /metrics` received.
    pub metrics_probes: Count,
    /// `GET /v1/models` received.
    pub models_probes: Count,
}

/// A scripted replica. It answers probes like an idle vLLM, and requests as [`crate::answers::polite`] does, until told
/// otherwise.
/// Dropping it closes everything.
pub struct Upstream {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Bound, never listening: keeps the port ours while the replica is stopped.
    _port: TcpSocket,
    running: Mutex<Option<JoinSet<()>>>,
}

/// What the accept loop and the connections share with the test.
struct Shared {
    model: String,
    counts: Counts,
    scripts: Mutex<Scripts>,
    received: Mutex<Vec<Arc<Received>>>,
    /// The latest head of each probed path.
    probes: Mutex<BTreeMap<String, Head>>,
}

struct Scripts {
    request: Arc<Handler>,
    head: Arc<HeadHandler>,
    /// Comes before the next three.
    probe: Arc<ProbeHandler>,
    health: Vec<Step>,
    metrics: Vec<Step>,
    models: Vec<Step>,
}

impl Upstream {
    /// A running replica that serves `model`.
    ///
    /// # Panics
    /// No port can be had.
    #[must_use]
    pub fn start(model: &str) -> Self {
        let upstream = Self::stopped(model);
        upstream.start_again();
        upstream
    }

    /// A replica whose port refuses connections until [`Upstream::start_again`].
    ///
    /// # Panics
    /// No port can be had.
    #[must_use]
    pub fn stopped(model: &str) -> Self {
        let port = socket();
        port.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
        let address = port.local_addr().expect("a bound address");
        let scripts = Scripts {
            request: Arc::new(crate::answers::polite),
            head: Arc::new(|_| OnHead::ReadBody),
            probe: Arc::new(|_| None),
            health: probes::healthy(),
            metrics: probes::metrics(model, Load::default()),
            models: probes::models(model),
        };
        let shared = Shared {
            model: model.to_owned(),
            counts: Counts::default(),
            scripts: Mutex::new(scripts),
            received: Mutex::default(),
            probes: Mutex::default(),
        };
        Self { shared: Arc::new(shared), address, _port: port, running: Mutex::new(None) }
    }

    /// Listens (again) on the same port.
    ///
    /// # Panics
    /// The port cannot be listened on.
    pub fn start_again(&self) {
        let socket = socket();
        socket.bind(self.address).expect("the replica's own port");
        let listener = socket.listen(4096).expect("a listening port");
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&self.shared)));
        *lock(&self.running) = Some(tasks);
    }

    /// The process is gone: its connections are closed at once, new ones are refused.
    pub fn stop(&self) {
        // Dropping the accept loop drops the listener and, with its own set, every connection.
        *lock(&self.running) = None;
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its base URL, as a configuration names it and as usage lines show it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The model it serves.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.shared.model
    }

    /// Numbers to look at and wait for.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Sets the script of complete requests.
    pub fn on_request(&self, script: impl Fn(&Received) -> Vec<Step> + Send + Sync + 'static) {
        self.scripts().request = Arc::new(script);
    }

    /// Answers every request with `steps`.
    pub fn answer_with(&self, steps: Vec<Step>) {
        self.on_request(move |_| steps.clone());
    }

    /// Sets what happens when a request's head is there.
    pub fn on_head(&self, decide: impl Fn(&Head) -> OnHead + Send + Sync + 'static) {
        self.scripts().head = Arc::new(decide);
    }

    /// Answers probes by their heads; None: as they are answered otherwise.
    pub fn on_probe(&self, decide: impl Fn(&Head) -> Option<Vec<Step>> + Send + Sync + 'static) {
        self.scripts().probe = Arc::new(decide);
    }

    /// Answers `/health` with `steps`.
    pub fn set_health(&self, steps: Vec<Step>) {
        self.scripts().health = steps;
    }

    /// Answers `/health` with 200 again.
    pub fn set_healthy(&self) {
        self.set_health(probes::healthy());
    }

    /// Answers `/metrics` with `steps`.
    pub fn set_metrics(&self, steps: Vec<Step>) {
        self.scripts().metrics = steps;
    }

    /// Answers `/metrics` with a vLLM page that shows `load`.
    pub fn set_load(&self, load: Load) {
        self.set_metrics(probes::metrics(self.model(), load));
    }

    /// Answers `/v1/models` with `steps`.
    pub fn set_models(&self, steps: Vec<Step>) {
        self.scripts().models = steps;
    }

    /// The complete requests so far, in order.
    #[must_use]
    pub fn received(&self) -> Vec<Arc<Received>> {
        lock(&self.shared.received).clone()
    }

    /// The heads of the latest probe of each path.
    #[must_use]
    pub fn probes(&self) -> Vec<Head> {
        lock(&self.shared.probes).values().cloned().collect()
    }

    /// Forgets the bodies received so far (their count stays).
    pub fn forget_received(&self) {
        lock(&self.shared.received).clear();
    }

    /// The only request there should have been.
    ///
    /// # Panics
    /// There were none or several.
    #[must_use]
    pub fn only_request(&self) -> Arc<Received> {
        let received = self.received();
        assert_eq!(received.len(), 1, "requests at {}", self.url());
        Arc::clone(&received[0])
    }

    fn scripts(&self) -> MutexGuard<'_, Scripts> {
        lock(&self.shared.scripts)
    }
}

/// A TCP socket whose port can be bound by the sleeping and by the listening socket of one replica.
fn socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("SO_REUSEADDR");
    socket.set_reuseport(true).expect("SO_REUSEPORT");
    socket
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let number = shared.counts.connections.get();
                shared.counts.connections.add();
                connections.spawn(play::serve(stream, number, Arc::clone(&shared)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
