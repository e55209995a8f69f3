//! A worker that can't serve as it was told says why, and ends.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use datafusion_tributary_tests::processes::{Network, Process};

async fn refusal(args: &[&str]) -> String {
    let mut process = Process::tributary(&[&["worker"], args].concat());
    let status = process.ended().await;
    let errors = process.errors();
    assert!(!status.success(), "{args:?}: {errors}");
    errors
}

#[tokio::test]
async fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("grpc://{}", taken.local_addr().expect("an address"));
    let errors = refusal(&["--listen", &url]).await;
    assert!(errors.contains(&url) && errors.contains("in use"), "{errors}");
}

#[tokio::test]
async fn a_udp_port_that_is_taken() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address");
    let url = format!("quic://{address}");
    let network = Network::quic();
    let flags = network.flags(Ipv4Addr::LOCALHOST);
    // The other address is free, and serving it alone isn't what was asked for.
    let listen = format!("quic://127.0.0.1:0,{url}");
    let args = [&["--listen", &listen], &*flags.iter().map(String::as_str).collect::<Vec<_>>()];
    let errors = refusal(&args.concat()).await;
    for words in [url.as_str(), "UDP", "in use"] {
        assert!(errors.contains(words), "'{words}' is not in: {errors}");
    }
}

#[tokio::test]
async fn plain_text_for_everybody() {
    let errors = refusal(&["--listen", "grpc://0.0.0.0:0", "--allow-path", "/"]).await;
    for words in ["grpc://0.0.0.0:0", "--tls", "--insecure"] {
        assert!(errors.contains(words), "'{words}' is not in: {errors}");
    }
}

#[tokio::test]
async fn certificates_that_are_not_there() {
    let dir = tempfile::tempdir().expect("a folder");
    let missing = dir.path().join("certificates").display().to_string();
    let errors = refusal(&["--listen", "grpcs://127.0.0.1:0", "--tls", &missing]).await;
    for words in [missing.as_str(), "node.pem"] {
        assert!(errors.contains(words), "'{words}' is not in: {errors}");
    }
}

#[tokio::test]
async fn encryption_without_certificates() {
    for listen in ["grpcs://127.0.0.1:0", "quic://127.0.0.1:0"] {
        let errors = refusal(&["--listen", listen]).await;
        for words in [listen, "--tls", "tributary certs"] {
            assert!(errors.contains(words), "'{words}' is not in: {errors}");
        }
    }
}

/// A host that isn't this machine's.
#[tokio::test]
async fn an_address_of_another_machine() {
    // Set aside for documentation, so that nobody has it.
    let args = ["--listen", "grpc://192.0.2.1:0", "--insecure", "--allow-path", "/"];
    let errors = refusal(&args).await;
    assert!(errors.contains("192.0.2.1") && errors.contains("listen"), "{errors}");
}
