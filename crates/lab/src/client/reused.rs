//! Connections that carried an answer before. A server may close an idle connection at the very moment at which the next
//! request goes out on it (llama-server closes after its streams without a word); that is nobody's failure, and what a
//! client owes is to send again on another one.

use http::{Extensions, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Error;
use hyper_util::client::legacy::connect::HttpInfo;
use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// By their own address, so at most as many as the machine has ports for one server.
#[derive(Clone, Debug, Default)]
pub(super) struct Reused(Arc<Mutex<HashSet<SocketAddr>>>);

impl Reused {
    /// The connection of this answer is one that has carried one.
    pub(super) fn answered(&self, response: &Response<Incoming>) {
        if let Some(own) = own_address(response.extensions()) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(own);
        }
    }

    /// Whether the connection that broke had carried an answer before. It is forgotten by that, so that whoever sends again
    /// as long as this is true comes to an end.
    pub(super) fn broke(&self, error: &Error) -> bool {
        let mut extras = Extensions::new();
        if let Some(connection) = error.connect_info() {
            connection.get_extras(&mut extras);
        }
        let own = own_address(&extras);
        own.is_some_and(|own| self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&own))
    }
}

fn own_address(extensions: &Extensions) -> Option<SocketAddr> {
    extensions.get::<HttpInfo>().map(HttpInfo::local_addr)
}
