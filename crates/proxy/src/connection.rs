//! One client connection: heads are read, requests served one after the other, then it is closed so that the
//! client sees its last answer.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::Duration;

use memchr::memmem;
use sluicegate_wire::{Dialect, HeadError, MAX_HEAD, parse_request};
use tokio::net::TcpStream;

use crate::buffers::with_scratch;
use crate::client::Client;
use crate::clock;
use crate::gateway::Gateway;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::request::{self, After, Manner};
use crate::request_id;
use crate::respond;

/// How long a kept connection may wait for its next request.
const IDLE_KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long a new connection of a gateway that is about to stop may wait for its first request: it was made before
/// its client could know.
const UNUSED_GRACE: Duration = Duration::from_secs(1);
/// First read of a request: its head, and a small body with it. A large body is better read where it will stay.
const FIRST_READ: usize = 8 * 1024;
/// After an answer that leaves the request's body unread, and on an idle connection that is closed, what still comes is
/// read and dropped: closing at once would reset the connection, and the reset could overtake the answer. Until nothing has come for this long,
const LINGER_IDLE: Duration = Duration::from_secs(2);
/// and for this long at the most.
const LINGER_MAX: Duration = Duration::from_secs(30);

/// What reading a head came to.
enum Head {
    Whole(Vec<u8>),
    Refused(Refusal),
    /// The client closed.
    Gone,
    /// Nothing came, and nothing is waited for any more.
    Idle,
}

/// Serves a connection to its end.
pub(crate) async fn run(gateway: Arc<Gateway>, stream: TcpStream) {
    let mut client = Client::new(stream, Arc::clone(&gateway)).await;
    let (mut idle, mut unused) = (gateway.plan.listen.head_timeout, UNUSED_GRACE);
    loop {
        match read_head(&gateway, &mut client, idle, unused).await {
            Head::Whole(head) => {
                if request::serve(&gateway, &mut client, head).await == After::Close {
                    break;
                }
            }
            Head::Refused(refusal) => {
                // Boxed, or every connection would carry the room for it as long as it is open.
                Box::pin(refuse(&gateway, &mut client, &refusal)).await;
                break;
            }
            // A request may be on its way, and must not be answered with a reset.
            Head::Idle => break,
            Head::Gone => return,
        }
        (idle, unused) = (IDLE_KEEP_ALIVE, Duration::ZERO);
        // Requests that come faster than they are answered must not keep the thread from its other connections.
        tokio::task::coop::consume_budget().await;
    }
    linger(&mut client).await;
}

/// Reads up to the end of a head. What follows it stays in the client's inbox. `unused`: how long an idle connection
/// stays open when the gateway drains.
async fn read_head(gateway: &Gateway, client: &mut Client, idle: Duration, unused: Duration) -> Head {
    let unused = clock::now() + unused;
    let mut deadline = clock::now() + idle;
    let mut begun = false;
    client.timer.set(Some(deadline));
    loop {
        skip_blank_lines(&mut client.inbox);
        if let Some(head) = take_head(&mut client.inbox) {
            return Head::Whole(head);
        }
        if let Some(refusal) = hopeless(&client.inbox) {
            return Head::Refused(refusal);
        }
        if !begun && !client.inbox.is_empty() {
            begun = true;
            deadline = clock::now() + gateway.plan.listen.head_timeout;
            client.timer.set(Some(deadline));
        }
        let waited = poll_fn(|cx| {
            let read = poll_head(client, cx);
            if read.is_ready() {
                return read;
            }
            // An idle connection is of no use to a gateway that is about to stop.
            let draining = !begun && gateway.is_draining();
            if draining {
                client.timer.set(Some(deadline.min(unused)));
            }
            let (now, stopping) = (clock::now(), gateway.is_stopping());
            if begun && stopping {
                Poll::Ready(Err(Head::Refused(Refusal::GatewayStopped)))
            } else if begun && now >= deadline {
                Poll::Ready(Err(Head::Refused(Refusal::HeadTimeout)))
            } else if !begun && (now >= deadline || stopping || (draining && now >= unused)) {
                Poll::Ready(Err(Head::Idle))
            } else {
                Poll::Pending
            }
        });
        match waited.await {
            Ok(Some(head)) => return Head::Whole(head),
            Ok(None) => {}
            Err(end) => return end,
        }
    }
}

/// One read. The usual case, a head that comes whole, does not pass through the inbox.
fn poll_head(client: &mut Client, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, Head>> {
    with_scratch(|buf| match client.poll_read(cx, &mut buf[..FIRST_READ]) {
        Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Err(Head::Gone)),
        Poll::Ready(Ok(n)) => {
            let read = &buf[..n];
            let end = head_end(read).filter(|_| client.inbox.is_empty() && !read.starts_with(b"\r\n"));
            let (head, rest) = end.map_or((None, read), |end| (Some(read[..end].to_vec()), &read[end..]));
            client.inbox.extend_from_slice(rest);
            Poll::Ready(Ok(head))
        }
        Poll::Pending => Poll::Pending,
    })
}

/// A head that is not complete and that nothing to come can mend.
fn hopeless(inbox: &[u8]) -> Option<Refusal> {
    if inbox.len() > MAX_HEAD {
        return Some(Refusal::BadHead(HeadError::TooLarge));
    }
    match parse_request(inbox) {
        Err(error) => Some(Refusal::BadHead(error)),
        // Complete to a lenient reader, yet without the line ends that a head has here.
        Ok(Some(_)) => Some(Refusal::BadHead(HeadError::Bad("lines must end with CR LF"))),
        Ok(None) => None,
    }
}

fn take_head(inbox: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = head_end(inbox)?;
    let rest = inbox.split_off(end);
    Some(std::mem::replace(inbox, rest))
}

fn head_end(bytes: &[u8]) -> Option<usize> {
    static END: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"\r\n\r\n"));
    END.find(bytes).map(|at| at + 4)
}

/// RFC 9112 2.2: a server should ignore empty lines before a request line.
fn skip_blank_lines(inbox: &mut Vec<u8>) {
    let blank = inbox.chunks_exact(2).take_while(|pair| pair == b"\r\n").count() * 2;
    if blank > 0 {
        inbox.drain(..blank);
    }
}

/// A head that could not even be read has a usage line too.
async fn refuse(gateway: &Arc<Gateway>, client: &mut Client, refusal: &Refusal) {
    gateway.counters.refused_heads.fetch_add(1, Ordering::Relaxed);
    let mut record = Record::new(gateway);
    record.request_id = request_id::make();
    let manner = Manner { dialect: Dialect::OpenAi, http11: true, keep_alive: false, head_only: false };
    respond::refuse(client, &manner, refusal, &mut record, gateway.plan.listen.write_idle_timeout).await;
}

/// Ends the sending side, then drops what the client still sends, for a bounded time and amount.
async fn linger(client: &mut Client) {
    let socket = socket2::SockRef::from(&client.stream);
    if client.reset {
        let _ = socket.set_linger(Some(Duration::ZERO));
        return;
    }
    if socket.shutdown(std::net::Shutdown::Write).is_err() {
        return;
    }
    let end = clock::now() + LINGER_MAX;
    loop {
        let deadline = end.min(clock::now() + LINGER_IDLE);
        client.timer.set(Some(deadline));
        let more = poll_fn(|cx| {
            with_scratch(|buf| match client.poll_read(cx, buf) {
                Poll::Ready(Ok(n)) => Poll::Ready(n > 0),
                Poll::Ready(Err(_)) => Poll::Ready(false),
                Poll::Pending if clock::now() >= deadline => Poll::Ready(false),
                Poll::Pending => Poll::Pending,
            })
        });
        if !more.await || clock::now() >= end {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_plan::gateway;

    #[test]
    fn the_task_of_an_open_stream_is_small() {
        // What stays allocated for as long as a stream is open. Phases before the relay must stay boxed.
        let running = gateway();
        let stream = std::net::TcpStream::connect(running.address()).expect("the gateway listens");
        stream.set_nonblocking(true).expect("a socket can be non-blocking");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let size = runtime.block_on(async {
            let stream = TcpStream::from_std(stream).expect("a socket of this runtime");
            size_of_val(&run(Arc::clone(running.gateway()), stream))
        });
        assert!(size <= 1216, "{size} bytes");
    }
}
