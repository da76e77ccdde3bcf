//! The admin side's connections: few and short, so that whoever floods or stalls them takes nothing from the data
//! plane.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// At most this many connections at a time; further ones wait in the listener's backlog, without a descriptor.
pub(super) const MOST: usize = 64;
/// For a request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// For a whole connection, which serves one request: its head and body, and the answer read to its end.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Before the next try where the system gives no connection, mostly for want of descriptors.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves until it is dropped together with its runtime.
pub(super) async fn serve(listener: TcpListener, router: Router) -> Infallible {
    let free = Arc::new(Semaphore::new(MOST));
    loop {
        // Never closed, so that there always is a permit in the end.
        let permit = Arc::clone(&free).acquire_owned().await;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the admin side accepts no connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            // One request, or a connection cut by its time could be cut between two.
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            // A connection that breaks off or takes too long is its client's concern alone.
            let _ = tokio::time::timeout(WHOLE_TIMEOUT, connection).await;
            drop(permit);
        });
    }
}
