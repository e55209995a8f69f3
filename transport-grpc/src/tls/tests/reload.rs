//! Certificates that are replaced while connections are open.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use datafusion_tributary_core::tls::TlsIdentity;

use super::authority::{Authority, Node};
use super::*;

/// A folder for an identity, removed in the end.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tributary-tls-{}-{number}", std::process::id());
        let dir = Self(std::env::temp_dir().join(name));
        fs::create_dir(&dir.0).expect("the folder for temporary files is writable");
        dir
    }

    fn write(&self, node: &Node) {
        let write = |name: &Path, text: &str| {
            fs::write(self.0.join(name), text).expect("the folder is writable");
        };
        write("node.pem".as_ref(), &node.chain);
        write("node.key".as_ref(), &node.key);
        write("ca.pem".as_ref(), &node.roots);
    }

    fn identity(&self) -> TlsIdentity {
        TlsIdentity::from_dir(&self.0).expect("the files are complete")
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[tokio::test]
async fn new_files_count_from_the_next_handshake_on() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let (server_dir, client_dir) = (Dir::new(), Dir::new());
    server_dir.write(&old.node(&["localhost"]));
    client_dir.write(&old.node(&["node-old"]));
    let (server, client) = (server_dir.identity(), client_dir.identity());
    let acceptor = acceptor(TlsConfig::new(server.clone()));
    let connector = connector(TlsConfig::new(client.clone()));
    let first = connect(&acceptor, &connector, "localhost").await;
    let (mut server_side, mut client_side, names) = first.streams();
    assert_eq!(names, ["node-old"]);

    server_dir.write(&new.node(&["localhost"]));
    assert!(server.reload().expect("the files are complete"));
    let (_, error) = connect(&acceptor, &connector, "localhost").await.errors();
    assert!(error.contains("isn't issued by a CA that this side trusts"), "{error}");

    client_dir.write(&new.node(&["node-new"]));
    assert!(client.reload().expect("the files are complete"));
    let (_, _, names) = connect(&acceptor, &connector, "localhost").await.streams();
    assert_eq!(names, ["node-new"]);

    let (server, client) = tokio::join!(echo(&mut server_side), exchange(&mut client_side));
    server.and(client).expect("the open connection goes on");
}

#[tokio::test]
async fn files_that_make_no_configuration_leave_the_old_one() {
    let authority = Authority::new("ca");
    let dir = Dir::new();
    let (first, second) = (authority.node(&["localhost"]), authority.node(&["localhost"]));
    dir.write(&first);
    let identity = dir.identity();
    let acceptor = acceptor(TlsConfig::new(identity.clone()));
    let connector = connector(TlsConfig::new(authority.node(&["node-b"]).identity()));

    // Between the writes of a certificate and of its key.
    dir.write(&Node { key: first.key.clone(), ..authority.node(&["localhost"]) });
    assert!(identity.reload().expect("each file is complete"));
    connect(&acceptor, &connector, "localhost").await.streams();

    dir.write(&second);
    assert!(identity.reload().expect("the files are complete"));
    connect(&acceptor, &connector, "localhost").await.streams();
}
