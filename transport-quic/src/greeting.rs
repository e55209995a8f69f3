//! What a server says on each new connection, before it is asked: on which further ports it is.
//!
//! It is the only uni-directional stream of a connection: a list of ports, two bytes each. A client
//! of TLS 1.3 believes in its connection before the server has looked at its certificate, so the
//! greeting is also how it knows that it was let in.

use quinn::{Connection, ReadToEndError};

use crate::config::MAX_ENDPOINTS;
use crate::error;

const MAX_BYTES: usize = MAX_ENDPOINTS * size_of::<u16>();

/// Greets a client. A connection that breaks meanwhile is its reader's to notice.
pub(crate) async fn send(connection: Connection, ports: Vec<u16>) {
    let Ok(mut stream) = connection.open_uni().await else { return };
    let bytes: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    if stream.write_all(&bytes).await.is_ok() {
        // An error says that it is over already.
        let _ = stream.finish();
    }
}

/// Waits for a server's greeting and returns its ports.
///
/// # Errors
/// Why there is none.
pub(crate) async fn receive(connection: &Connection) -> Result<Vec<u16>, String> {
    let stream = connection.accept_uni().await;
    let mut stream = stream.map_err(|error| error::connection_text(&error))?;
    let bytes = stream.read_to_end(MAX_BYTES).await.map_err(|error| match error {
        ReadToEndError::Read(error) => error::read_text(&error),
        ReadToEndError::TooLong => "its greeting is longer than any".to_owned(),
    })?;
    Ok(bytes.chunks_exact(2).map(|port| u16::from_be_bytes([port[0], port[1]])).collect())
}
