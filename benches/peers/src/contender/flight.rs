//! Stock arrow-flight over tonic: what a user gets who takes both from the shelf.

use std::sync::Arc;

use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::encode::{DictionaryHandling, FlightDataEncoderBuilder};
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
};
use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use datafusion_tributary_core::config::Compression;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use super::{
    CONNECTION_WINDOW_BYTES, Contender, FRAME_BYTES, Moved, STREAM_WINDOW_BYTES, arrow_compression,
    count_rows, expect_all,
};
use crate::Result;
use crate::batches::Workload;

/// How Flight is set up.
#[derive(Clone, Copy, Debug)]
pub enum FlightSettings {
    /// As it comes: one channel, frames of 16 KiB, tonic's windows, dictionaries sent as their
    /// values.
    Stock,
    /// Frames, windows and connections of our transport; dictionaries sent as they are.
    Tuned {
        /// Channels, among which the streams are dealt out.
        n_connections: usize,
    },
}

/// `FlightDataEncoderBuilder` on a tonic server, `FlightRecordBatchStream` on a tonic channel, one
/// `DoGet` for each output.
#[derive(Debug)]
pub struct Flight {
    workload: Arc<Workload>,
    channels: Vec<Channel>,
    _server: SpawnedTask<()>,
}

impl Flight {
    /// Serves the workload and opens the channels.
    ///
    /// # Errors
    /// The network's.
    pub async fn start(
        workload: Arc<Workload>,
        compression: Compression,
        settings: FlightSettings,
    ) -> Result<Self> {
        // Without it the socket would delay small writes, which `Server::serve` doesn't.
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse()?)?.with_nodelay(Some(true));
        let url = format!("http://{}", incoming.local_addr()?);
        let service = Service { workload: Arc::clone(&workload), compression, settings };
        let mut builder = tonic::transport::Server::builder();
        if let FlightSettings::Tuned { .. } = settings {
            builder = builder
                .max_frame_size(FRAME_BYTES)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        }
        let router = builder.add_service(FlightServiceServer::new(service));
        let server = SpawnedTask::spawn(async {
            // A server that ends shows in the answers.
            let _ = router.serve_with_incoming(incoming).await;
        });
        let mut channels = Vec::new();
        for _ in 0..settings.n_connections() {
            channels.push(settings.endpoint(&url)?.connect().await?);
        }
        Ok(Self { workload, channels, _server: server })
    }

    async fn get(&self, output: usize) -> Result<FlightRecordBatchStream> {
        let channel = self.channels[output % self.channels.len()].clone();
        let ticket = Ticket { ticket: output.to_string().into() };
        let data = FlightServiceClient::new(channel).do_get(ticket).await?.into_inner();
        Ok(FlightRecordBatchStream::new_from_flight_data(data.map_err(FlightError::from)))
    }
}

impl FlightSettings {
    fn n_connections(self) -> usize {
        match self {
            Self::Stock => 1,
            Self::Tuned { n_connections } => n_connections.max(1),
        }
    }

    fn endpoint(self, url: &str) -> Result<Endpoint> {
        let endpoint = Endpoint::from_shared(url.to_owned())?;
        Ok(match self {
            Self::Stock => endpoint,
            Self::Tuned { .. } => endpoint
                .max_frame_size(FRAME_BYTES)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES),
        })
    }
}

#[async_trait(?Send)]
impl Contender for Flight {
    async fn pass(&self) -> Result<Moved> {
        let outputs = 0..self.workload.n_outputs();
        let streams = futures::future::try_join_all(outputs.map(|nth| self.get(nth))).await?;
        let n_rows = count_rows(streams).await?;
        expect_all("rows", n_rows, self.workload.pass_rows())?;
        Ok(Moved::bytes(self.workload.pass_bytes()))
    }
}

/// Answers `DoGet`, whose ticket is an output's number.
struct Service {
    workload: Arc<Workload>,
    compression: Compression,
    settings: FlightSettings,
}

impl Service {
    fn encode(&self, output: usize) -> Result<BoxStream<'static, Result<FlightData, Status>>> {
        let options = IpcWriteOptions::default();
        let options = options.try_with_compression(arrow_compression(self.compression))?;
        let mut builder = FlightDataEncoderBuilder::new()
            .with_schema(self.workload.schema())
            .with_options(options);
        if let FlightSettings::Tuned { .. } = self.settings {
            builder = builder.with_dictionary_handling(DictionaryHandling::Resend);
        }
        let batches = futures::stream::iter(self.workload.output(output)).map(Ok);
        Ok(builder.build(batches).map_err(Status::from).boxed())
    }
}

type Answer<T> = Result<Response<T>, Status>;

fn no_answer<T>() -> Answer<T> {
    Err(Status::unimplemented("only DoGet is served"))
}

#[async_trait]
impl FlightService for Service {
    type HandshakeStream = BoxStream<'static, Result<HandshakeResponse, Status>>;
    type ListFlightsStream = BoxStream<'static, Result<FlightInfo, Status>>;
    type DoGetStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoPutStream = BoxStream<'static, Result<PutResult, Status>>;
    type DoExchangeStream = BoxStream<'static, Result<FlightData, Status>>;
    type DoActionStream = BoxStream<'static, Result<arrow_flight::Result, Status>>;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let ticket = request.into_inner().ticket;
        let output = std::str::from_utf8(&ticket).ok().and_then(|text| text.parse().ok());
        let output = output.filter(|output| *output < self.workload.n_outputs());
        let output = output.ok_or_else(|| Status::not_found("no such output"))?;
        let encoded = self.encode(output);
        Ok(Response::new(encoded.map_err(|error| Status::internal(error.to_string()))?))
    }

    async fn handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Self::HandshakeStream> {
        no_answer()
    }

    async fn list_flights(&self, _request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        no_answer()
    }

    async fn get_flight_info(&self, _request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        no_answer()
    }

    async fn poll_flight_info(&self, _request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        no_answer()
    }

    async fn get_schema(&self, _request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        no_answer()
    }

    async fn do_put(&self, _request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        no_answer()
    }

    async fn do_exchange(
        &self,
        _request: Request<Streaming<FlightData>>,
    ) -> Answer<Self::DoExchangeStream> {
        no_answer()
    }

    async fn do_action(&self, _request: Request<Action>) -> Answer<Self::DoActionStream> {
        no_answer()
    }

    async fn list_actions(&self, _request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        no_answer()
    }
}
