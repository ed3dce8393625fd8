//! The HTTP side: `GET /metrics` and nothing else, for few connections at a time, one request each.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use prometheus::{Registry, TEXT_FORMAT, TextEncoder};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Scrapers take one each for a moment. Who comes when all are taken has the place of who holds one longest.
const CONNECTIONS: usize = 32;
/// To say what one wants and to read the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// A text is served again for so long: however many ask, encoding takes a small share of the time.
const FRESH: Duration = Duration::from_millis(200);

/// Serves connections from the metrics of a registry.
#[derive(Debug)]
pub struct Server {
    text: Arc<Text>,
    connections: VecDeque<AbortHandle>,
}

impl Server {
    pub fn new(registry: Registry) -> Self {
        Self {
            text: Arc::new(Text {
                registry,
                last: Mutex::new(None),
            }),
            connections: VecDeque::new(),
        }
    }

    /// Serves one connection in the background.
    pub fn serve(&mut self, stream: TcpStream) {
        self.connections.retain(|one| !one.is_finished());
        if self.connections.len() >= CONNECTIONS
            && let Some(oldest) = self.connections.pop_front()
        {
            oldest.abort();
        }
        let text = Arc::clone(&self.text);
        let task = tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&text, &request);
                async { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .keep_alive(false)
                .max_buf_size(16 << 10)
                .serve_connection(TokioIo::new(stream), service);
            // What a peer does wrong is its own affair.
            let _ = tokio::time::timeout(PATIENCE, connection).await;
        });
        self.connections.push_back(task.abort_handle());
    }
}

/// The metrics as text, as of a moment ago at most.
#[derive(Debug)]
struct Text {
    registry: Registry,
    last: Mutex<Option<(Instant, Bytes)>>,
}

impl Text {
    #[expect(
        clippy::disallowed_methods,
        reason = "the age of a text that was made for who asked before"
    )]
    fn get(&self) -> Result<Bytes, prometheus::Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some((at, text)) = &*last
            && now.duration_since(*at) < FRESH
        {
            return Ok(text.clone());
        }
        let text: Bytes = TextEncoder::new()
            .encode_to_string(&self.registry.gather())?
            .into();
        *last = Some((now, text.clone()));
        Ok(text)
    }
}

fn answer(text: &Text, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        refused.headers_mut().insert(ALLOW, allowed);
        return refused;
    }
    match request.uri().path() {
        "/metrics" => match text.get() {
            Ok(metrics) => {
                let mut answer = plain(StatusCode::OK, metrics);
                let format = HeaderValue::from_static(TEXT_FORMAT);
                answer.headers_mut().insert(CONTENT_TYPE, format);
                answer
            }
            Err(_) => plain(
                StatusCode::INTERNAL_SERVER_ERROR,
                "metrics cannot be encoded\n",
            ),
        },
        "/" => plain(StatusCode::OK, "observer: metrics are at /metrics\n"),
        _ => plain(StatusCode::NOT_FOUND, "metrics are at /metrics\n"),
    }
}

fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}
