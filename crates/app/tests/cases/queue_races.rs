//! A-57 by force: whole queues leave in the very moment in which their slots come free.

use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, Gate, Step, Upstream, send, until};
use tokio::task::JoinSet;

use crate::slots_queue::sent;

#[tokio::test]
async fn a_57_a_queue_that_leaves_all_at_once_leaves_every_slot_free() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up]).set("pools", "slots", 2).set("listen", "threads", 4);
    let bench = Bench::live(&config, 1).await;
    let request = post(CHAT, &chat("m1", ""));
    let mut requests = 0;
    for round in 0..40 {
        let gate = Gate::new();
        up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
        let seen = up.counts().requests.get();
        let mut holders = sent(&bench, (0..2).map(|_| request.clone())).await;
        up.counts().requests.reached(seen + 2).await;
        let waiting = sent(&bench, (0..12).map(|_| request.clone())).await;
        until(|| bench.waiting() == 12).await;
        up.answer_with(vec![send(chat_answer("a", 1, 1))]);
        let mut leaving = JoinSet::new();
        for (i, client) in waiting.into_iter().enumerate() {
            let gate = gate.clone();
            leaving.spawn(async move {
                if i == 5 {
                    gate.open();
                }
                client.reset();
            });
        }
        leaving.join_all().await;
        for holder in &mut holders {
            assert_eq!(holder.answer().await.status(), 200, "round {round}");
        }
        requests += 14;
        bench.assert_idle(requests).await;
    }
}
