//! Which crate may depend on which, development dependencies included.

use cargo_metadata::DependencyKind;

use crate::{assert_none, files};

const FACADE: &str = "datafusion-tributary";

/// A dependency as the manifest names it.
struct Arrow<'a> {
    from: &'a str,
    to: &'a str,
    dev: bool,
}

#[test]
fn crates_depend_only_along_the_allowed_arrows() {
    let metadata = files::metadata();
    let members: Vec<&str> = metadata.packages.iter().map(|p| p.name.as_str()).collect();
    assert!(members.contains(&FACADE), "the root package is missing");
    let mut violations: Vec<String> = members
        .iter()
        .filter(|member| role(member).is_none())
        .map(|member| format!("{member}: unknown member; add its role and arrows to this test"))
        .collect();
    for package in &metadata.packages {
        for dependency in &package.dependencies {
            let arrow = Arrow {
                from: &package.name,
                to: &dependency.name,
                dev: dependency.kind == DependencyKind::Development,
            };
            violations.extend(violation(&arrow, members.contains(&arrow.to)));
        }
    }
    assert_none(
        &violations,
        "Dependencies against the arrows of docs/ARCHITECTURE.md. Move the code to the crate that \
         may have the dependency, or put a trait in `core` between the two:",
    );
}

#[test]
fn wrong_arrows_are_found() {
    let arrow = |from, to, dev| Arrow { from, to, dev };
    let core = "datafusion-tributary-core";
    let planner = "datafusion-tributary-planner";
    let inproc = "datafusion-tributary-transport-inproc";
    assert!(violation(&arrow(core, planner, true), true).is_some());
    assert!(violation(&arrow(planner, inproc, false), true).is_some());
    assert!(violation(&arrow(planner, inproc, true), true).is_none());
    assert!(violation(&arrow(FACADE, "datafusion-tributary-cli", true), true).is_some());
    assert!(violation(&arrow(core, "tonic-prost", false), false).is_some());
    assert!(violation(&arrow(FACADE, "tonic", false), false).is_some());
    assert!(violation(&arrow(FACADE, "tonic", true), false).is_none());
    for library in ["tonic", "tokio-rustls"] {
        let transport = "datafusion-tributary-transport-grpc";
        assert!(violation(&arrow(transport, library, false), false).is_none());
    }
}

fn violation(arrow: &Arrow<'_>, to_member: bool) -> Option<String> {
    let Arrow { from, to, dev } = *arrow;
    if to_member {
        let (Some(from_role), Some(to_role)) = (role(from), role(to)) else {
            return None; // An unknown member has a message of its own.
        };
        let allowed = normal(from_role).contains(&to_role)
            || dev && development(from_role).contains(&to_role);
        let kind = if dev { "as dev-dependency " } else { "" };
        return (!allowed).then(|| format!("{from} -> {to} {kind}(a {from_role} on a {to_role})"));
    }
    let owners = library_owners(to)?;
    // An example may show our services on a server of the user's.
    let is_example = from == FACADE && dev;
    (!owners.contains(&from) && !is_example)
        .then(|| format!("{from} -> {to} (only {} may name this library)", owners.join(" and ")))
}

/// What a member is, `None` for a name that this test doesn't know.
fn role(package: &str) -> Option<&'static str> {
    if package == FACADE {
        return Some("facade");
    }
    let suffix = package.strip_prefix(FACADE)?.strip_prefix('-')?;
    match suffix {
        "core" => Some("core"),
        "planner" => Some("planner"),
        "tls" => Some("tls"),
        "cli" => Some("cli"),
        "tests" => Some("tests"),
        "benches" => Some("benches"),
        _ if suffix.starts_with("transport-") => Some("transport"),
        _ => None,
    }
}

/// The members that a member may depend on.
fn normal(role: &str) -> &'static [&'static str] {
    match role {
        "planner" | "tls" => &["core"],
        "transport" => &["core", "tls"],
        "facade" => &["core", "planner", "transport"],
        "cli" => &["facade"],
        "tests" => &["facade", "core", "planner", "transport", "cli"],
        "benches" => &["facade", "cli"],
        _ => &[],
    }
}

/// The members that only a member's own tests may use besides.
fn development(role: &str) -> &'static [&'static str] {
    match role {
        // The planner's tests run what it planned, on the smallest transport.
        "planner" => &["transport"],
        _ => &[],
    }
}

/// The only members that may name a network library.
fn library_owners(library: &str) -> Option<&'static [&'static str]> {
    const GRPC: &str = "datafusion-tributary-transport-grpc";
    const QUIC: &str = "datafusion-tributary-transport-quic";
    const TLS: &str = "datafusion-tributary-tls";
    const LIBRARIES: &[(&str, &[&str])] = &[
        ("tonic", &[GRPC]),
        ("tower", &[GRPC]),
        ("hyper", &[GRPC]),
        ("http", &[GRPC]),
        ("h2", &[GRPC]),
        ("arrow-flight", &[GRPC]),
        ("quinn", &[QUIC]),
        ("rustls", &[TLS, GRPC, QUIC]),
        ("tokio-rustls", &[GRPC, QUIC]),
    ];
    LIBRARIES
        .iter()
        .find(|(name, _)| {
            // `tonic-build` and `http-body` belong to their family.
            library.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
        .map(|(_, owners)| *owners)
}
