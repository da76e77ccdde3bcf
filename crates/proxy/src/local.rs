//! What the gateway answers itself: the list of its models.

use std::sync::Arc;

use serde_json::{Value, json};
use sluicegate_wire::model_id;

use crate::gateway::Gateway;
use crate::keys::Key;
use crate::pool::Replica;
use crate::refusal::Refusal;
use crate::resolve::unknown_model;
use crate::route::Route;
use crate::targets::Target;

/// `GET /v1/models`: what this key may use.
pub(crate) fn models(gateway: &Gateway, key: Option<&Key>) -> Vec<u8> {
    let routes = gateway.routes.load();
    let data: Vec<Value> = routes
        .models()
        .iter()
        .filter(|name| may_use(key, name))
        .filter_map(|name| Some(view(routes.get(name)?, name)))
        .collect();
    json!({ "object": "list", "data": data }).to_string().into_bytes()
}

/// `GET /v1/models/{id}`.
pub(crate) fn model(gateway: &Gateway, key: Option<&Key>, path: &str) -> Result<Vec<u8>, Refusal> {
    let name = model_id(path).unwrap_or_default();
    let routes = gateway.routes.load();
    match routes.get(&name).filter(|route| may_use(key, &route.plan.model)) {
        Some(route) => Ok(view(route, &name).to_string().into_bytes()),
        None => Err(unknown_model(&routes, &name, key)),
    }
}

fn may_use(key: Option<&Key>, model: &str) -> bool {
    key.is_none_or(|key| key.may_use(model))
}

fn view(route: &Route, name: &str) -> Value {
    // The shortest context of its targets' replicas: a prompt must fit wherever it goes.
    let context = route.targets.all().iter().filter_map(|target| context(target, name)).min();
    let mut view = json!({ "id": name, "object": "model", "created": 0, "owned_by": "sluicegate" });
    if let (Some(context), Some(object)) = (context, view.as_object_mut()) {
        object.insert("max_model_len".into(), context.into());
    }
    view
}

/// The shortest context that a target's replicas tell of, for the model they are asked for.
fn context(target: &Target, asked: &str) -> Option<u64> {
    let upstream = target.upstream_model.as_deref().unwrap_or(asked);
    let told = |replica: &Arc<Replica>| {
        replica.models.load().iter().find(|model| &*model.name == upstream).and_then(|model| model.context)
    };
    target.pool.replicas().iter().filter_map(told).min()
}
