//! TLS towards replicas: rustls with the system's certificates.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Shakes hands with `host` over `tcp`.
///
/// # Errors
/// The host's certificate is not trusted or not its own, or the connection broke.
pub async fn connect(host: &str, tcp: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "not a name that a certificate can have"))?;
    TlsConnector::from(config()).connect(name, tcp).await
}

/// One for the process. Certificates come from the system's store, or from where `SSL_CERT_FILE` and `SSL_CERT_DIR`
/// say.
pub fn config() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::warn!(%error, "a system certificate cannot be read");
        }
        let mut roots = RootCertStore::empty();
        let (good, bad) = roots.add_parsable_certificates(found.certs);
        if good == 0 {
            tracing::error!(bad, "no trusted certificate was found: https replicas cannot be reached");
        }
        Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
    });
    Arc::clone(config)
}
