//! Writing in batches: reads and decisions of all tasks that are ready come first, their writes after them.
//!
//! A write to a socket wakes whoever sleeps on its other end, and waking costs more than the write itself where that
//! is another core's work to be interrupted for. With writes side by side the peer is still awake when the next one
//! comes. On a busy core this is a sixth of the CPU of a small request (docs/performance.md).

use std::future::poll_fn;
use std::task::Poll;

/// Lets every task that is ready run first. Where none is, goes on at once.
pub(crate) async fn others_first() {
    let mut asked = false;
    poll_fn(|cx| {
        if asked {
            return Poll::Ready(());
        }
        asked = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
