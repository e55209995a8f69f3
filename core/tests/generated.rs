//! The checked-in protobuf code is what `proto/tributary.proto` generates, so that no build needs a
//! compiler for it. `TRIBUTARY_BLESS=1 cargo test -p datafusion-tributary-core --test generated`
//! writes it anew.

use std::fs;
use std::path::Path;

#[test]
fn checked_in_code_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checked_in = root.join("src/wire/generated/tributary.v1.rs");
    let descriptors =
        protox::compile(["tributary.proto"], [root.join("proto")]).expect("a legal file");
    let out = tempfile::tempdir().expect("a directory");
    prost_build::Config::new()
        .bytes(["."])
        .out_dir(out.path())
        .compile_fds(descriptors)
        .expect("generates");
    let generated = fs::read_to_string(out.path().join("tributary.v1.rs")).expect("was written");
    if std::env::var_os("TRIBUTARY_BLESS").is_some() {
        fs::write(&checked_in, &generated).expect("can be written");
    }
    let known = fs::read_to_string(&checked_in).expect("is checked in");
    assert!(
        known == generated,
        "proto/tributary.proto and src/wire/generated/tributary.v1.rs differ; run \
         TRIBUTARY_BLESS=1 cargo test -p datafusion-tributary-core --test generated"
    );
}
