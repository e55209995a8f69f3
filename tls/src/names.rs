//! The names in a certificate.

use std::net::{Ipv4Addr, Ipv6Addr};

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// All names that a certificate vouches for: DNS names, URIs and IP addresses. They say who it is;
/// whether it may be this one is webpki's to verify.
pub fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(parsed) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    let texts = parsed.valid_dns_names().chain(parsed.valid_uri_names()).map(str::to_owned);
    texts.chain(ip_addresses(certificate).unwrap_or_default()).collect()
}

const OBJECT_IDENTIFIER: u8 = 0x06;
/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// The context-specific tag of `TBSCertificate.extensions`.
const EXTENSIONS: u8 = 0xa3;
/// The context-specific tag of `GeneralName.iPAddress`.
const IP_ADDRESS: u8 = 0x87;

/// webpki compares addresses, but it doesn't list them.
fn ip_addresses(certificate: &[u8]) -> Option<Vec<String>> {
    let inside = |bytes| Elements(bytes).next().map(|(_, content)| content);
    let to_be_signed = inside(inside(certificate)?)?;
    let (_, extensions) = Elements(to_be_signed).find(|(tag, _)| *tag == EXTENSIONS)?;
    let value = Elements(inside(extensions)?).find_map(|(_, extension)| {
        let mut fields = Elements(extension);
        let is_it = fields.next()? == (OBJECT_IDENTIFIER, SUBJECT_ALT_NAME);
        // Whether it is critical may stand between.
        is_it.then(|| fields.last()).flatten()
    });
    let (_, alternatives) = value?;
    let addresses = Elements(inside(alternatives)?).filter(|(tag, _)| *tag == IP_ADDRESS);
    Some(addresses.filter_map(|(_, bytes)| address(bytes)).collect())
}

fn address(bytes: &[u8]) -> Option<String> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).to_string());
    let v6 = || <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).to_string());
    v4.or_else(|_| v6()).ok()
}

/// The elements of a DER sequence, as tags and contents; malformed bytes end it.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (n_bytes, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // So many bytes of length follow. A certificate in TLS has three at most.
            0x81..=0x83 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(n_bytes)?;
        self.0 = rest;
        Some((tag, content))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SanType};

    use super::*;

    fn certificate(hosts: &[&str], uri: Option<&str>) -> CertificateDer<'static> {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).expect("valid names");
        let uri = uri.map(|uri| SanType::URI(uri.try_into().expect("ASCII")));
        params.subject_alt_names.extend(uri);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    #[test]
    fn all_kinds_of_names_are_listed() {
        let long = "a".repeat(63);
        let hosts = ["10.1.2.3", "node-a.example", "2001:db8::5", "*.node.example", &long];
        let found = names(&certificate(&hosts, Some("spiffe://cluster/node-a")));
        let expected = [
            "node-a.example",
            "*.node.example",
            &long,
            "spiffe://cluster/node-a",
            "10.1.2.3",
            "2001:db8::5",
        ];
        assert_eq!(found, expected);
        assert!(names(&certificate(&[], None)).is_empty());
    }

    #[test]
    fn malformed_bytes_have_no_addresses() {
        let whole = certificate(&["10.1.2.3"], None);
        assert_eq!(ip_addresses(&whole), Some(vec!["10.1.2.3".to_owned()]));
        for n_bytes in 0..whole.len() {
            assert_eq!(ip_addresses(&whole[..n_bytes]), None, "{n_bytes} bytes");
        }
        assert_eq!(ip_addresses(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(ip_addresses(&[0x30, 0x83, 0xff, 0xff, 0xff, 0x30]), None);
    }
}
