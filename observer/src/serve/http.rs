//! The HTTP side: `GET /metrics` and nothing else, of few connections at a time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Scrapers keep one each; more than this is no scraping.
const CONNECTIONS: usize = 32;
/// Who does not say what it wants goes.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that a connection is served.
const LONGEST: Duration = Duration::from_mins(10);

/// Serves connections from the metrics of a registry.
#[derive(Clone, Debug)]
pub struct Server {
    registry: Registry,
    room: Arc<Semaphore>,
}

impl Server {
    pub fn new(registry: Registry) -> Self {
        Self {
            registry,
            room: Arc::new(Semaphore::new(CONNECTIONS)),
        }
    }

    /// Serves one connection in the background; closes it at once where there is no room.
    pub fn serve(&self, stream: TcpStream) {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return;
        };
        let registry = self.registry.clone();
        tokio::spawn(async move {
            let _room = permit;
            let service = service_fn(move |request| {
                let answer = answer(&registry, &request);
                async { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .max_buf_size(16 << 10)
                .serve_connection(TokioIo::new(stream), service);
            // What a peer does wrong is its own affair.
            let _ = tokio::time::timeout(LONGEST, connection).await;
        });
    }
}

fn answer(registry: &Registry, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        let allowed = hyper::header::HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, allowed);
        return refused;
    }
    match request.uri().path() {
        "/metrics" => match TextEncoder::new().encode_to_string(&registry.gather()) {
            Ok(metrics) => {
                let mut answer = text(StatusCode::OK, metrics);
                let format = hyper::header::HeaderValue::from_static(TEXT_FORMAT);
                answer.headers_mut().insert(CONTENT_TYPE, format);
                answer
            }
            Err(_) => text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "metrics cannot be encoded\n",
            ),
        },
        "/" => text(StatusCode::OK, "observer: metrics are at /metrics\n"),
        _ => text(StatusCode::NOT_FOUND, "metrics are at /metrics\n"),
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
}
