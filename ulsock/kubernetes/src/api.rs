//! One request to the API server, by HTTP/1.1 over TLS, each on a connection of its own: there is one now and then.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use nicd::trusted::{self, Readers};
use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use crate::body::Body;
use crate::settings::{BadSettings, Settings};

/// For a connection, and until an answer begins.
const ANSWER: Duration = Duration::from_secs(10);
/// A server that has vanished is noticed so soon.
const IDLE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_secs(10);
/// How an error begins that says that a version is forgotten.
pub const GONE: &str = "410 ";

/// Names and annotations are enough: the rest of a node is long.
const WANTED: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                      application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

pub struct Api {
    settings: Settings,
    name: ServerName<'static>,
    tls: TlsConnector,
}

impl Api {
    pub fn new(settings: &Settings) -> Result<Api, BadSettings> {
        let wrong = |why: String| BadSettings(why);
        let name = ServerName::try_from(settings.host.clone());
        let name = name.map_err(|_| wrong(format!("{}: no host", settings.host)))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(settings.ca.as_bytes()) {
            let added = certificate
                .map_err(|why| why.to_string())
                .and_then(|it| roots.add(it).map_err(|why| why.to_string()));
            added.map_err(|why| wrong(format!("the authority's certificate: {why}")))?;
        }
        if roots.is_empty() {
            return Err(wrong("there is no certificate of the authority".to_owned()));
        }
        let provider = Arc::new(crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|why| wrong(why.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Api {
            settings: settings.clone(),
            name,
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// What it answers to that path, if it answers well.
    pub async fn get(&self, path: &str) -> Result<Body, String> {
        let asked = timeout(ANSWER, self.ask(path)).await;
        asked.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }

    async fn ask(&self, path: &str) -> Result<Body, String> {
        let Settings { host, port, .. } = &self.settings;
        let stream = TcpStream::connect((host.as_str(), *port)).await;
        let stream = stream.map_err(|why| why.to_string())?;
        watch_over(&stream).map_err(|why| why.to_string())?;
        let stream = self.tls.connect(self.name.clone(), stream).await;
        let stream = stream.map_err(|why| format!("TLS: {why}"))?;
        let joined = http1::Builder::new()
            .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
            .await;
        let (mut sender, connection) = joined.map_err(|why| why.to_string())?;
        let driver = tokio::spawn(async move {
            let _ = connection.await;
        });
        let answer = sender.send_request(self.request(path)?).await;
        let answer = answer.map_err(|why| why.to_string())?;
        let status = answer.status();
        let mut body = Body::new(answer.into_body(), driver);
        match status {
            StatusCode::OK => Ok(body),
            _ => Err(format!("{status}: {}", body.beginning().await)),
        }
    }

    fn request(&self, path: &str) -> Result<Request<Empty<Bytes>>, String> {
        let path_of_token = &self.settings.token;
        let token = trusted::read(path_of_token, Readers::All);
        let token = token.map_err(|why| format!("{} {why}", path_of_token.display()))?;
        let token = HeaderValue::try_from(format!("Bearer {}", token.trim()));
        let mut token = token.map_err(|_| format!("{} holds no token", path_of_token.display()))?;
        token.set_sensitive(true);
        Request::get(path)
            .header(
                HOST,
                format!("{}:{}", self.settings.host, self.settings.port),
            )
            .header(AUTHORIZATION, token)
            .header(ACCEPT, WANTED)
            .header(USER_AGENT, "ulsock-nicd")
            .body(Empty::new())
            .map_err(|why| why.to_string())
    }
}

fn watch_over(stream: &TcpStream) -> rustix::io::Result<()> {
    let socket = stream.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, IDLE)?;
    sockopt::set_tcp_keepintvl(socket, INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, 3)
}
