//! Plans to bytes and back: DataFusion's protobuf with our nodes, named codecs, and a table of what
//! that protobuf loses.

mod builtin;
mod extension;
mod functions;
mod lost;
mod nodes;
mod options;
mod registry;
mod series;
mod sinks;
mod sorts;
mod stage;

pub use self::functions::missing_functions;
pub use self::lost::lost_on_the_wire;
pub use self::options::{apply_options, changed_options};
pub use self::registry::CodecRegistry;
pub use self::sinks::file_sink_config;
pub use self::stage::{StageDecoder, check_node, encode_plan};
