//! The standard Flight service, for readers that aren't part of the query.

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::runtime::JoinSet;
use datafusion_tributary_core::error::{Result, TransportError};
use datafusion_tributary_core::protocol::FetchRequest;
use datafusion_tributary_core::wire::{BatchDecoder, BatchEncoder, Call, decode_call, encode_call};
use futures::StreamExt;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::{BoxError, Service, ServiceExt};

use super::Serving;
use super::body::{CallBody, Form, Outgoing};
use super::service::{check_grpc, respond};
use crate::error::to_status;
use crate::frame::{MessageReader, PREFIX_BYTES, protocol, put_flight_data};
use crate::proto::{FlightTicket, Ticket};

const NAME: &str = "arrow.flight.protocol.FlightService";
const DO_GET: &str = "/arrow.flight.protocol.FlightService/DoGet";

/// What our tickets begin with.
const TICKET_PREFIX: &[u8] = b"tributary/1 ";

/// A ticket holds a request and a schema.
const MAX_TICKET_BYTES: usize = 4 * 1024 * 1024;

/// A ticket with which any Flight client can read one output of a task by `DoGet`, as its first and
/// only reader. `schema` is that of the task's plan; a reader gets it also where there are no rows.
///
/// # Errors
/// `Protocol` for a request of several outputs; what Arrow says of a schema that IPC can't express.
pub fn ticket(request: &FetchRequest, schema: &SchemaRef) -> Result<Bytes> {
    if request.outputs.len() != 1 {
        let n_outputs = request.outputs.len();
        return Err(TransportError::Protocol(format!("a ticket for {n_outputs} outputs")));
    }
    let empty = RecordBatch::new_empty(Arc::clone(schema));
    let schema = BatchEncoder::new(request.compression).encode(&empty)?;
    let ticket = Ticket {
        call: encode_call(&Call::Fetch(request.clone())),
        schema: Bytes::copy_from_slice(&schema),
    };
    let mut bytes = BytesMut::from(TICKET_PREFIX);
    bytes.extend_from_slice(&ticket.encode_to_vec());
    Ok(bytes.freeze())
}

/// `DoGet` for our tickets; every other call is unimplemented.
#[derive(Clone)]
pub struct FlightService {
    serving: Arc<Serving>,
}

impl FlightService {
    pub(super) fn new(serving: Arc<Serving>) -> Self {
        Self { serving }
    }

    async fn do_get(self, mut body: Body) -> Response<Body> {
        let mut reader = MessageReader::default();
        let message = loop {
            match reader.next(MAX_TICKET_BYTES) {
                Ok(Some(message)) => break message,
                Ok(None) => {}
                Err(error) => return to_status(&error).into_http(),
            }
            match body.frame().await {
                Some(Ok(frame)) => frame.data_ref().into_iter().for_each(|data| reader.push(data)),
                Some(Err(status)) => return status.into_http(),
                None => return Status::invalid_argument("a call without a ticket").into_http(),
            }
        };
        // Beside the plans: what a ticket holds may be long.
        let mut parsing = JoinSet::new();
        parsing.spawn_on(async { parse_ticket(message) }, &self.serving.runtime);
        let parsed = parsing.join_next().await.and_then(std::result::Result::ok);
        match parsed.unwrap_or(Err(TransportError::Cancelled)) {
            Ok((request, empty)) => {
                let start = |out, tasks: &mut _| self.start(request, empty, out, tasks);
                respond(CallBody::new(Form::OnePiece, start).into_tonic())
            }
            Err(error) => to_status(&error).into_http(),
        }
    }

    fn start(
        self,
        request: FetchRequest,
        empty: RecordBatch,
        out: Outgoing,
        tasks: &mut JoinSet<()>,
    ) {
        let serving = self.serving;
        let runtime = serving.runtime.clone();
        let send = async move {
            let ended = send(&serving, request, empty, &out).await;
            out.end(ended.err().as_ref()).await;
        };
        tasks.spawn_on(send, &runtime);
    }
}

/// Sends an output; the flow control of HTTP/2 bounds what a slow reader has outstanding.
async fn send(
    serving: &Serving,
    request: FetchRequest,
    empty: RecordBatch,
    out: &Outgoing,
) -> Result<()> {
    let mut encoder = BatchEncoder::new(request.compression);
    let mut stream = serving.worker.fetch(request).pop().ok_or_else(|| {
        TransportError::Protocol("a channel gave no stream for a requested output".to_owned())
    })?;
    let schema = empty.schema();
    let mut first = Some(Ok(empty));
    while let Some(batch) = match first.take() {
        Some(first) => Some(first),
        None => stream.next().await,
    } {
        let mut block = out.block();
        let batch = with_schema(batch?, &schema)?;
        for message in encoder.encode_messages(&batch)? {
            put_flight_data(&mut block, None, Some(&message));
        }
        if !out.send(block.take()).await {
            return Ok(());
        }
    }
    Ok(())
}

/// Gives a batch the promised schema: plans may change metadata and nullability between batches, and
/// a stream of Flight has one schema.
fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|error| {
        TransportError::Protocol(format!("the output doesn't have the ticket's schema: {error}"))
    })
}

fn parse_ticket(message: Bytes) -> Result<(FetchRequest, RecordBatch)> {
    let ticket = FlightTicket::decode(message).map_err(protocol)?.ticket;
    let invalid = |why: &dyn fmt::Display| {
        TransportError::NotFound(format!(
            "the ticket isn't one of Tributary's ({why}); make one with \
             datafusion_tributary_transport_grpc::ticket"
        ))
    };
    let ours = ticket
        .strip_prefix(TICKET_PREFIX)
        .ok_or_else(|| invalid(&"it doesn't begin with their prefix"))?;
    let Ticket { call, schema } = Ticket::decode(ours).map_err(|error| invalid(&error))?;
    let empty = BatchDecoder::new().decode(schema)?;
    if empty.num_rows() > 0 {
        return Err(invalid(&"its schema has rows"));
    }
    match decode_call(call)? {
        Call::Fetch(request) if request.outputs.len() == 1 => Ok((request, empty)),
        _ => Err(invalid(&"it names no output")),
    }
}

impl<B> Service<Request<B>> for FlightService
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer: Ready<Response<Body>> = ready(match check_grpc(&request) {
            Err(status) => status.into_http(),
            Ok(()) if request.uri().path() == DO_GET => {
                let (service, body) = (self.clone(), Body::new(request.into_body()));
                return Box::pin(async move { Ok(service.do_get(body).await) });
            }
            Ok(()) => Status::unimplemented("a worker only has DoGet").into_http(),
        });
        Box::pin(async { Ok(answer.await) })
    }
}

impl NamedService for FlightService {
    const NAME: &'static str = NAME;
}

impl fmt::Debug for FlightService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightService")
            .field("worker", &self.serving.worker)
            .finish_non_exhaustive()
    }
}

/// Our `DoGet` in front of another Flight service, to which everything else goes.
#[derive(Clone, Debug)]
pub struct FlightAround<S> {
    ours: FlightService,
    theirs: S,
}

impl<S> FlightAround<S> {
    pub(super) fn new(ours: FlightService, theirs: S) -> Self {
        Self { ours, theirs }
    }
}

impl<S, B> Service<Request<B>> for FlightAround<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Theirs is made ready once it's known that it is asked.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { ours, theirs } = self.clone();
        let request = request.map(Body::new);
        Box::pin(async move {
            if request.uri().path() != DO_GET {
                return theirs.oneshot(request).await;
            }
            let (parts, body) = request.into_parts();
            let (is_ours, body) = peek(body).await;
            let request = Request::from_parts(parts, body);
            if is_ours { ours.oneshot(request).await } else { theirs.oneshot(request).await }
        })
    }
}

impl<S> NamedService for FlightAround<S> {
    const NAME: &'static str = NAME;
}

/// Reads as much of a ticket as tells whose it is, and gives the whole body back.
async fn peek(mut body: Body) -> (bool, Body) {
    // The prefix of gRPC, key and length of the ticket's field, and what ours begin with.
    const MAX_BYTES: usize = PREFIX_BYTES + 1 + 10 + TICKET_PREFIX.len();
    let (mut frames, mut seen) = (Vec::new(), Vec::new());
    while seen.len() < MAX_BYTES {
        let Some(frame) = body.frame().await else { break };
        if let Ok(data) = frame.as_ref().map(Frame::data_ref)
            && let Some(data) = data
        {
            seen.extend_from_slice(&data[..data.len().min(MAX_BYTES)]);
        }
        let is_last = frame.is_err();
        frames.push(frame);
        if is_last {
            break;
        }
    }
    let is_ours = seen.windows(TICKET_PREFIX.len()).any(|bytes| bytes == TICKET_PREFIX);
    let rest = futures::stream::unfold(body, |mut body| async {
        let frame = body.frame().await?;
        Some((frame, body))
    });
    (is_ours, Body::new(StreamBody::new(futures::stream::iter(frames).chain(rest))))
}
