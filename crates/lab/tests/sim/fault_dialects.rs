//! The faults that befall requests one by one, in each dialect.

use crate::client::{Answer, get, post};
use crate::faults::{open, read_to_end};
use serde_json::{Value, json};
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fault::FaultSpec;
use sluicegate_lab::sim::{Sim, SimConfig};
use std::io::ErrorKind;
use std::net::SocketAddr;

/// One kind of request.
#[derive(Clone, Copy, Debug)]
struct Kind {
    path: &'static str,
    stream: bool,
    /// Once in each event of a token.
    token: &'static str,
    /// In a stream that ends well.
    end: &'static str,
    /// Status of a stream that is refused before its first token: 200 where the refusal is an event.
    refused_in: u16,
}

const EMBEDDINGS: &str = "/v1/embeddings";
const WHOLE: Kind = Kind { path: EMBEDDINGS, stream: false, token: "", end: "", refused_in: 500 };

fn kinds() -> Vec<Kind> {
    let streams = [
        ("/v1/chat/completions", r#""delta":{"content":""#, "[DONE]", 200),
        ("/v1/completions", r#""text":""#, "[DONE]", 200),
        ("/v1/messages", r#""type":"text_delta""#, "message_stop", 500),
        ("/v1/responses", "event: response.output_text.delta", "response.completed", 500),
    ];
    let mut kinds = vec![WHOLE];
    for (path, token, end, refused_in) in streams {
        kinds.push(Kind { path, stream: true, token, end, refused_in });
        kinds.push(Kind { path, ..WHOLE });
    }
    kinds
}

impl Kind {
    fn body(&self) -> Value {
        if self.path == EMBEDDINGS {
            return json!({"model": "sim", "input": "x"});
        }
        json!({"model": "sim", "max_tokens": 8, "max_output_tokens": 8, "ignore_eos": true, "stream": self.stream,
            "prompt": "x", "input": "x", "messages": [{"role": "user", "content": "x"}]})
    }

    async fn post(&self, addr: SocketAddr) -> Answer {
        post(addr, self.path, &self.body()).await
    }

    /// All that it is told until its connection ends.
    async fn told(&self, addr: SocketAddr) -> (String, Result<(), ErrorKind>) {
        read_to_end(open(addr, self.path, &self.body()).await).await
    }
}

async fn with(fault: &str) -> Sim {
    let sim = Sim::start(SimConfig { profile: Profile::fast(), ..SimConfig::default() }).unwrap();
    sim.replicas()[0].set_fault(FaultSpec::parse(fault).unwrap()).await;
    sim
}

#[tokio::test]
async fn a_status_a_reset_and_a_hang_befall_requests_of_every_kind() {
    let (status, reset) = (with("status:503").await, with("reset").await);
    for kind in kinds() {
        assert_eq!(kind.post(status.addrs()[0]).await.status, 503, "{kind:?}");
        let told = kind.told(reset.addrs()[0]).await;
        assert_eq!((told.0.as_str(), told.1), ("", Err(ErrorKind::ConnectionReset)), "{kind:?}");
        let hang = with("hang:next=1").await;
        let (replica, addr) = (&hang.replicas()[0], hang.addrs()[0]);
        let mut held = tokio::spawn(async move { kind.post(addr).await.status });
        while replica.faults()[0].next == Some(1) {
            tokio::task::yield_now().await;
        }
        assert_eq!([get(addr, "/health").await.status, kind.post(addr).await.status], [200, 200], "{kind:?}");
        assert!(!held.is_finished(), "{kind:?}");
        replica.clear_faults().await;
        assert_eq!((&mut held).await.unwrap(), 200, "{kind:?}");
    }
}

#[tokio::test]
async fn a_cut_befalls_answers_of_every_kind() {
    let sim = with("cut:3").await;
    for kind in kinds() {
        let (said, _cut) = kind.told(sim.addrs()[0]).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{kind:?}: {said}");
        if kind.stream {
            assert_eq!(said.matches(kind.token).count(), 3, "{kind:?}: {said}");
            assert!(!said.contains(kind.end) && !said.ends_with("0\r\n\r\n"), "{kind:?}: {said}");
            continue;
        }
        let (head, half) = said.split_once("\r\n\r\n").unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        assert_eq!(half.len(), length.parse::<usize>().unwrap() / 2, "{kind:?}");
    }
}

/// vLLM has no word for it inside of a response: that one is cut.
#[tokio::test]
async fn an_error_inside_a_200_befalls_streams_of_every_dialect_and_whole_answers_have_its_status() {
    let (first, third) = (with("error-event:0:500").await, with("error-event:2:500").await);
    for kind in kinds() {
        let refused = kind.post(first.addrs()[0]).await;
        assert_eq!(refused.status, kind.refused_in, "{kind:?}");
        assert!(refused.body.contains("asked to answer 500"), "{kind:?}: {}", refused.body);
        if !kind.stream {
            assert_eq!(kind.post(third.addrs()[0]).await.status, 500, "{kind:?}");
            continue;
        }
        let cut = kind.path == "/v1/responses";
        let addr = third.addrs()[0];
        let said = if cut { kind.told(addr).await.0 } else { kind.post(addr).await.body };
        assert_eq!(said.matches(kind.token).count(), 2, "{kind:?}: {said}");
        let told = said.contains("asked to answer 500");
        assert_eq!(told, !cut, "{kind:?}: {said}");
        assert!(!said.contains("message_stop") && !said.contains("response.completed"), "{kind:?}: {said}");
    }
}
