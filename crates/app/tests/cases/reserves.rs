//! A-55: what a request reserves of its key's tokens, however its body says it.

use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::requests::{CHAT, post_as};
use sluicegate_testkit::{Bench, Config, Gate, Step, Upstream, send};

const COMPLETIONS: &str = "/v1/completions";

/// The members behind `model`, and the tokens that are reserved. The prompts are less than a token, or token ids.
const ROWS: [(&str, &str, u64); 28] = [
    (CHAT, r#""messages":[],"max_tokens":"100""#, 100),
    (CHAT, r#""messages":[],"max_tokens":" +1_00.0 ""#, 100),
    (CHAT, r#""messages":[],"max_tokens":"1\u00300""#, 100),
    (CHAT, r#""messages":[],"max_tokens":1e2"#, 100),
    (CHAT, r#""messages":[],"max_tokens":99.5"#, 100),
    (CHAT, r#""messages":[],"max_tokens":"many""#, 1024),
    (CHAT, r#""messages":[],"max_tokens":-1"#, 1024),
    (CHAT, r#""messages":[],"max_tokens":10,"n":"3""#, 30),
    (CHAT, r#""messages":[],"n_predict":100,"max_tokens":10"#, 100),
    (CHAT, r#""messages":[],"n_predict":-1,"max_tokens":10"#, 1024),
    // 40 bytes are ten tokens, wherever a template takes them from; the names around them are bytes as well.
    (CHAT, r#""messages":[],"tools":[{"description":"0123456789012345678901234567890"}],"max_tokens":0"#, 12),
    (
        CHAT,
        r#""messages":[{"reasoning_content":"0123456789012345678901234567890123456789"}],"max_tokens":0"#,
        10,
    ),
    (CHAT, r#""messages":[{"content":[{"text":"0123456789","image_url":null}]}],"max_tokens":0"#, 2),
    ("/v1/rerank", r#""query":"0123456789012345","documents":["0123","4567","8901"]"#, 15),
    ("/v1/score", r#""text_1":"0123456789012345","text_2":["0123","4567"]"#, 10),
    (COMPLETIONS, r#""prompt":{"prompt_string":"01234567"},"max_tokens":0"#, 2),
    ("/v1/responses", r#""input":"a","max_output_tokens":"100""#, 100),
    (COMPLETIONS, r#""prompt":"a","max_tokens":10,"best_of":5"#, 50),
    (COMPLETIONS, r#""prompt":"a","max_tokens":10,"best_of":2,"n":3"#, 30),
    (COMPLETIONS, r#""prompt":["a","b","c"],"max_tokens":10"#, 30),
    (COMPLETIONS, r#""prompt":["a","b"],"max_tokens":10,"n":2,"best_of":4"#, 80),
    (COMPLETIONS, r#""prompt":[],"max_tokens":10"#, 10),
    (COMPLETIONS, r#""prompt":[1,22,333],"max_tokens":10"#, 13),
    (COMPLETIONS, r#""prompt":[[1,2],[3],[4,5,6]],"max_tokens":10"#, 36),
    (COMPLETIONS, r#""prompt":["a","b"]"#, 2048),
    ("/v1/embeddings", r#""input":["aaaa","bbbb","cccc"],"n":7"#, 3),
    ("/v1/embeddings", r#""input":[1,2,3,4,5]"#, 5),
    ("/v1/embeddings", r#""input":[[1,2],[3,4,5]],"max_tokens":10"#, 5),
];

#[tokio::test]
async fn a_55_the_reservation_is_what_an_engine_may_make_of_the_body() {
    let up = Upstream::start("m1");
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 20, 130))]);
    let bench = Bench::live(&Config::new(&[&up]).key("ann"), 1).await;
    let (mut clients, mut before) = (Vec::new(), 0);
    for (path, members, tokens) in ROWS {
        let mut client = bench.client().await;
        client.send(&post_as("ann", path, format!(r#"{{"model":"m1",{members}}}"#).as_bytes())).await;
        up.counts().requests.reached(clients.len() as u64 + 1).await;
        clients.push(client);
        let reserved = bench.key_usage("ann").day.tokens;
        assert_eq!(reserved - before, tokens, "{path} {members}");
        before = reserved;
    }
    gate.open();
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    bench.assert_idle(ROWS.len()).await;
}
