//! Every error the simulated engine can answer with, in vLLM's words.

use super::answer::not_kept;
use super::ask::Dialect;
use serde_json::json;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Problem {
    NotFound,
    MethodNotAllowed {
        allow: &'static str,
    },
    NotJsonType,
    BadJson {
        position: usize,
        reason: &'static str,
    },
    /// A missing or ill-typed field of the body.
    Field {
        field: &'static str,
        kind: &'static str,
        says: &'static str,
        input: String,
    },
    UnknownModel {
        asked: String,
        served: String,
    },
    /// A value that cannot be served. `param` names the field.
    Refused {
        message: String,
        param: &'static str,
    },
    UnknownResponse {
        id: String,
    },
    BodyTooLarge,
    Busy,
    /// The engine's own process has died, the server's has not.
    Dead,
    /// `/health` of a server whose engine has died; it has no body.
    Unwell,
    /// The server is up before its model is, as with llama-server.
    Loading,
    /// A status that somebody asked the simulator for.
    Asked(u16),
    Internal(String),
}

impl Problem {
    /// A well-formed value that vLLM's own checks refuse.
    pub(super) fn value(message: &str, param: &'static str, value: impl std::fmt::Display) -> Self {
        Self::Refused { message: format!("{message} (parameter={param}, value={value})"), param }
    }

    pub(super) fn status(&self) -> u16 {
        match self {
            Self::NotFound | Self::UnknownModel { .. } | Self::UnknownResponse { .. } => 404,
            Self::MethodNotAllowed { .. } => 405,
            Self::NotJsonType | Self::BadJson { .. } | Self::Field { .. } | Self::Refused { .. } => 400,
            Self::BodyTooLarge => 413,
            Self::Busy | Self::Unwell | Self::Loading => 503,
            Self::Dead | Self::Internal(_) => 500,
            Self::Asked(status) => *status,
        }
    }

    /// The body of an answer. What is refused before the dialect's own code sees it has the same shape in all of them.
    pub(super) fn body_in(&self, dialect: Option<Dialect>) -> String {
        let early = matches!(
            self,
            Self::NotJsonType | Self::BadJson { .. } | Self::Field { .. } | Self::BodyTooLarge
        );
        if early || dialect != Some(Dialect::Messages) || self.detail().is_some() {
            return self.body();
        }
        let (message, kind, _) = self.parts();
        format!(r#"{{"type":"error","error":{{"type":"{kind}","message":{}}}}}"#, json!(message))
    }

    fn body(&self) -> String {
        if let Some(detail) = self.detail() {
            return json!({ "detail": detail }).to_string();
        }
        let (message, kind, param) = self.parts();
        let message = json!(message);
        format!(
            r#"{{"error":{{"message":{message},"type":"{kind}","param":{param},"code":{}}}}}"#,
            self.status()
        )
    }

    /// The same as an event inside a stream that has begun: Python writes this one with spaces.
    pub(super) fn event(&self) -> String {
        let (message, kind, param) = self.parts();
        let message = json!(message);
        let code = self.status();
        format!(
            "data: {{\"error\": {{\"message\": {message}, \"type\": \"{kind}\", \"param\": {param}, \"code\": {code}}}}}\n\n"
        )
    }

    /// What it says, as text.
    pub(super) fn message(&self) -> String {
        self.parts().0
    }

    /// What the web framework says by itself, without the OpenAI shape.
    fn detail(&self) -> Option<&'static str> {
        match self {
            Self::NotFound => Some("Not Found"),
            Self::MethodNotAllowed { .. } => Some("Method Not Allowed"),
            Self::BodyTooLarge => Some("Content Too Large"),
            _ => None,
        }
    }

    /// Message, type, and the parameter as JSON.
    fn parts(&self) -> (String, &'static str, String) {
        let (message, kind, param) = match self {
            Self::NotFound | Self::MethodNotAllowed { .. } | Self::BodyTooLarge => {
                (self.detail().unwrap_or_default().to_owned(), "Bad Request", None)
            }
            Self::NotJsonType => {
                let message =
                    "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed";
                (message.to_owned(), "Bad Request", None)
            }
            Self::BadJson { position, reason } => {
                let message = format!(
                    "1 validation error:\n  {{'type': 'json_invalid', 'loc': 'body.{position}', 'msg': 'JSON decode \
                     error', 'input': '<dict of 0 items>', 'ctx': {{'error': '{reason}'}}}}"
                );
                (message, "Bad Request", Some(format!("body.{position}")))
            }
            Self::Field { field, kind, says, input } => {
                let message = format!(
                    "1 validation error:\n  {{'type': '{kind}', 'loc': 'body.{field}', 'msg': '{says}', 'input': \
                     '{input}'}}"
                );
                (message, "Bad Request", Some(format!("body.{field}")))
            }
            Self::UnknownModel { asked, served } => {
                let message = format!("The model `{asked}` does not exist. Valid aliases: {served}.");
                (message, "NotFoundError", Some("model".to_owned()))
            }
            Self::Refused { message, param } => {
                (message.clone(), "BadRequestError", Some((*param).to_owned()))
            }
            Self::Busy => {
                let message = "The engine is currently busy and cannot accept new requests. Please try again later or on \
                               a different instance.";
                (message.to_owned(), "Service Unavailable", None)
            }
            Self::UnknownResponse { id } => {
                (not_kept(id), "invalid_request_error", Some("response_id".to_owned()))
            }
            Self::Dead | Self::Unwell => {
                let message = "EngineCore encountered an issue. See stack trace (above) for the root cause.";
                (message.to_owned(), "InternalServerError", None)
            }
            Self::Loading => ("Loading model".to_owned(), "unavailable_error", None),
            Self::Asked(status) => {
                (format!("The simulated replica was asked to answer {status}."), "Fault", None)
            }
            Self::Internal(message) => (message.clone(), "InternalServerError", None),
        };
        (message, kind, param.map_or_else(|| "null".to_owned(), |param| json!(param).to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bodies as vLLM 0.32 sent them.
    #[test]
    fn errors_are_those_of_the_real_engine_byte_for_byte() {
        let table = [
            (
                Problem::UnknownModel { asked: "nope".to_owned(), served: "tiny".to_owned() },
                r#"{"error":{"message":"The model `nope` does not exist. Valid aliases: tiny.","type":"NotFoundError","param":"model","code":404}}"#,
            ),
            (
                Problem::value("temperature must be non-negative, got -1.0.", "temperature", "-1.0"),
                r#"{"error":{"message":"temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)","type":"BadRequestError","param":"temperature","code":400}}"#,
            ),
            (
                Problem::BadJson { position: 9, reason: "Expecting value" },
                r#"{"error":{"message":"1 validation error:\n  {'type': 'json_invalid', 'loc': 'body.9', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}","type":"Bad Request","param":"body.9","code":400}}"#,
            ),
            (
                Problem::NotJsonType,
                r#"{"error":{"message":"1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed","type":"Bad Request","param":null,"code":400}}"#,
            ),
            (
                Problem::Busy,
                r#"{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}"#,
            ),
            (
                Problem::UnknownResponse { id: "resp_abc".to_owned() },
                r#"{"error":{"message":"Response with id 'resp_abc' not found.","type":"invalid_request_error","param":"response_id","code":404}}"#,
            ),
            (
                Problem::Dead,
                r#"{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}"#,
            ),
            (Problem::NotFound, r#"{"detail":"Not Found"}"#),
            (Problem::MethodNotAllowed { allow: "POST" }, r#"{"detail":"Method Not Allowed"}"#),
        ];
        for (problem, body) in table {
            assert_eq!(problem.body_in(Some(Dialect::Chat)), body);
        }
        let unknown = Problem::UnknownModel { asked: "nope".to_owned(), served: "tiny".to_owned() };
        let anthropic = r#"{"type":"error","error":{"type":"NotFoundError","message":"The model `nope` does not exist. Valid aliases: tiny."}}"#;
        assert_eq!(unknown.body_in(Some(Dialect::Messages)), anthropic);
        let event = r#"data: {"error": {"message": "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.", "type": "Service Unavailable", "param": null, "code": 503}}"#;
        assert_eq!(Problem::Busy.event(), format!("{event}\n\n"));
    }
}
