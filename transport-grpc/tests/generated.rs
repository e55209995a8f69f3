//! Keeps the descriptors for reflection in step with the proto files.
//!
//! `TRIBUTARY_BLESS=1 cargo test --workspace --test generated` writes them.

use std::path::Path;

use prost::Message;

#[test]
fn descriptors_are_those_of_the_proto_files() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [package.join("proto"), package.join("../core/proto")];
    let descriptors =
        protox::compile(["tributary_grpc.proto"], folders).expect("well-formed proto files");
    let bytes = descriptors.encode_to_vec();
    let file = package.join("src/generated/descriptors.bin");
    if std::env::var_os("TRIBUTARY_BLESS").is_some() {
        std::fs::write(&file, &bytes).expect("the descriptors can be written");
    }
    let stored = std::fs::read(&file).expect("the descriptors can be read");
    assert!(stored == bytes, "{} is out of date; see the top of this test", file.display());
}
