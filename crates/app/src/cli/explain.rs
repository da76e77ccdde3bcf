//! `sluicegate explain`: where a request would go, asked of a running gateway.

mod table;

use std::collections::BTreeMap;
use std::env::VarError;
use std::io::Read as _;

use anyhow::Context as _;
use hyper::Method;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{ExplainArgs, Failure, print};
use crate::admin_client::AdminClient;
use crate::bounded_file;
use crate::inspect::ExplainedView;
use crate::one_call::Answer;
use crate::usage_sums::plain;

const CHAT_PATH: &str = "/v1/chat/completions";
/// Where the token is looked for unless another variable is named.
const TOKEN_VARIABLE: &str = "SLUICEGATE_ADMIN_TOKEN";

pub(super) fn run(args: &ExplainArgs) -> Result<(), Failure> {
    let body = request(args).map_err(Failure::Usage)?;
    let token = token(args.token_env.as_deref()).map_err(Failure::Usage)?;
    let client = AdminClient::new(&args.admin, token).map_err(Failure::Usage)?;
    let explained = ask(&client, body).map_err(Failure::running)?;
    print(&table::render(&explained))
}

/// The variable's value. One that was asked for by name must be there; the usual one need not.
fn token(asked: Option<&str>) -> anyhow::Result<Option<String>> {
    match (asked, std::env::var(asked.unwrap_or(TOKEN_VARIABLE))) {
        (_, Ok(token)) => Ok(Some(token)),
        (None, Err(VarError::NotPresent)) => Ok(None),
        (_, Err(error)) => {
            Err(error).with_context(|| format!("--token-env {}", asked.unwrap_or(TOKEN_VARIABLE)))
        }
    }
}

fn request(args: &ExplainArgs) -> anyhow::Result<Vec<u8>> {
    let file = match (&args.file, &args.model) {
        (Some(file), _) => file,
        (None, Some(_)) => return Ok(made_up(args)),
        (None, None) => anyhow::bail!("nothing to explain: give --model NAME or --file FILE"),
    };
    let mut body = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().read_to_end(&mut body).map(|_| body)
    } else {
        bounded_file::read(file, bounded_file::RECORDED)
    };
    let body = read.with_context(|| format!("cannot read {}", file.display()))?;
    if args.key.is_none() && !args.decide {
        return Ok(body);
    }
    with_flags(&body, args).with_context(|| format!("{} together with --key or --decide", file.display()))
}

/// The request with what the flags say in it; a body's bytes stay as they are.
fn with_flags(bytes: &[u8], args: &ExplainArgs) -> anyhow::Result<Vec<u8>> {
    let raw = |value: &Value| serde_json::value::to_raw_value(value);
    let given: Box<RawValue> = serde_json::from_slice(bytes).context("expected JSON")?;
    let mut members: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(given.get()).context("expected a JSON object")?;
    if !members.contains_key("path") {
        members = BTreeMap::from([
            ("path".into(), raw(&json!(CHAT_PATH))?),
            ("headers".into(), raw(&json!({ "content-type": "application/json" }))?),
            ("body".into(), given),
        ]);
    }
    if let Some(key) = &args.key {
        let doubled = members.insert("key".into(), raw(&json!(key))?).is_some();
        anyhow::ensure!(!doubled, "it names a key of its own");
    }
    if args.decide {
        members.insert("decide".into(), raw(&json!(true))?);
    }
    Ok(serde_json::to_vec(&members)?)
}

fn made_up(args: &ExplainArgs) -> Vec<u8> {
    let chat = json!({ "model": args.model, "messages": [{ "role": "user", "content": args.text }] });
    let mut headers = json!({ "content-type": "application/json" });
    if let (Some(session), Value::Object(headers)) = (&args.session, &mut headers) {
        headers.insert("x-session-id".into(), session.as_str().into());
    }
    let whole = json!({ "path": CHAT_PATH, "headers": headers, "body": chat, "key": args.key, "decide": args.decide });
    whole.to_string().into_bytes()
}

fn ask(client: &AdminClient, body: Vec<u8>) -> anyhow::Result<ExplainedView> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let Answer { status, body } = runtime.block_on(client.call(Method::POST, "/api/explain", body))?;
    if status == 200 {
        return serde_json::from_slice(&body).context("the admin side gave an answer of another version");
    }
    if !runtime.block_on(is_admin_side(client)) {
        anyhow::bail!(
            "{} is not the admin side; it may be the side for clients. Give --admin the address that `serve` \
             names as its admin side (by default http://127.0.0.1:9090)",
            client.url()
        );
    }
    let answer = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    let told = |pointer| answer.pointer(pointer).and_then(Value::as_str);
    let message = told("/error/message").map_or_else(|| "no reason given".into(), plain);
    if told("/error/code") == Some("unknown_key") {
        anyhow::bail!("{message}; --key takes the `name` of one of the [[keys]], not the key");
    }
    if status == 401 {
        anyhow::bail!(
            "{message}; put it into {TOKEN_VARIABLE}, or name another variable with --token-env NAME"
        );
    }
    anyhow::bail!("the gateway would answer {status}: {message}")
}

/// Asked where something went wrong: the side for clients refuses explanations in words that do not help.
async fn is_admin_side(client: &AdminClient) -> bool {
    let Ok(alive) = client.call(Method::GET, "/healthz", Vec::new()).await else { return false };
    let answer = serde_json::from_slice::<Value>(&alive.body).unwrap_or_default();
    answer.get("alive").is_some()
}
