//! `sluicegate explain`: where a request would go, asked of a running gateway.

mod table;

use std::io::Read as _;

use anyhow::Context as _;
use hyper::Method;
use serde_json::{Value, json};

use super::{ExplainArgs, Failure, print};
use crate::admin_client::AdminClient;
use crate::inspect::ExplainedView;
use crate::one_call::Answer;

pub(super) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let body = request(args).map_err(Failure::Usage)?;
    let token = std::env::var(&args.token_env).ok();
    let client = AdminClient::new(&args.admin, token).map_err(Failure::Usage)?;
    let explained = ask(&client, body).map_err(Failure::running)?;
    print(&table::render(&explained))
}

fn request(args: &ExplainArgs) -> anyhow::Result<Vec<u8>> {
    let Some(file) = &args.file else { return Ok(made_up(args)) };
    let mut body = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut body).map(|_| body)
    } else {
        std::fs::read(file)
    };
    read.with_context(|| format!("cannot read {}", file.display()))
}

fn made_up(args: &ExplainArgs) -> Vec<u8> {
    let chat = json!({ "model": args.model, "messages": [{ "role": "user", "content": args.text }] });
    let mut headers = json!({ "content-type": "application/json" });
    if let (Some(session), Value::Object(headers)) = (&args.session, &mut headers) {
        headers.insert("x-session-id".into(), session.as_str().into());
    }
    let whole = json!({ "path": "/v1/chat/completions", "headers": headers, "body": chat });
    whole.to_string().into_bytes()
}

fn ask(client: &AdminClient, body: Vec<u8>) -> anyhow::Result<ExplainedView> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Answer { status, body } = runtime.block_on(client.call(Method::POST, "/api/explain", body))?;
    if status == 200 {
        return serde_json::from_slice(&body).context("the admin side gave an answer of another version");
    }
    let message = serde_json::from_slice::<Value>(&body)
        .ok()
        .and_then(|answer| answer.pointer("/error/message")?.as_str().map(str::to_owned));
    anyhow::bail!(
        "the gateway would answer {status}: {}",
        message.unwrap_or_else(|| "no reason given".into())
    )
}
