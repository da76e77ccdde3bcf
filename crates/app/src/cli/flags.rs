//! What the command line says over the configuration file.

use std::net::SocketAddr;

use clap::Args;

use crate::config::{Overrides, address};

/// Options of `serve` and `check`. They stand above the file.
#[derive(Debug, Args)]
pub(crate) struct GatewayFlags {
    /// Base URL of a replica, for example http://10.0.0.11:8000; may be repeated
    #[arg(long = "replica", value_name = "URL")]
    replicas: Vec<String>,
    /// Address for clients [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Everybody who reaches that address may use the gateway, without a key
    #[arg(long)]
    open: bool,
    /// Address of the admin side [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    admin: Option<SocketAddr>,
    /// Where usage lines go: stdout, off, or a file's path [default: stdout]
    #[arg(long, value_name = "PATH")]
    usage: Option<String>,
    /// Data-plane threads; 0: one per core [default: 0]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl GatewayFlags {
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            replicas: self.replicas.clone(),
            listen: self.listen,
            admin: self.admin,
            threads: self.threads,
            open: self.open,
            usage: self.usage.clone(),
        }
    }
}
