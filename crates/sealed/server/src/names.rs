//! The names by which devices reach the server: a login is for one of them.
//!
//! Takes   the certificate of the server, and what its operator says
//! Gives   whether a name is one of its own
//! Never   believes what a request says of its host
//! Spec    spec/11-sync.md, [11.11.3]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use openssl::x509::X509;

/// Names, as URLs have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(BTreeSet<String>);

impl Names {
    /// Those that the operator gave.
    pub(crate) fn given(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// And those of this machine, for who listens at `here` without TLS.
    pub(crate) fn and_here(mut self, here: IpAddr) -> Self {
        let own = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
            here,
        ];
        self.0.extend(own.map(|address| address.to_string()));
        self.0.insert("localhost".to_owned());
        self
    }

    /// And those of a certificate: its fingerprint, and what it is for. A name with a star is that of others, too.
    pub(crate) fn and_of(mut self, certificate: &[u8], fingerprint: &str) -> Self {
        self.0.insert(format!("sha256:{fingerprint}"));
        let names = X509::from_der(certificate).ok();
        let names = names.and_then(|certificate| certificate.subject_alt_names());
        for name in names.iter().flatten() {
            if let Some(name) = name.dnsname().filter(|name| !name.contains('*')) {
                self.0.insert(name.to_ascii_lowercase());
            }
            if let Some(address) = name.ipaddress().and_then(address) {
                self.0.insert(address.to_string());
            }
        }
        self
    }

    /// Whether that is one of them.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// The address of which these are the bytes.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let sixteen = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    four.or(sixteen).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_knows_itself_by_what_it_was_given_and_by_nothing_else() {
        let names = Names::given(&["Server.Example".to_owned()]);
        assert!(names.has("server.example") && !names.has("localhost") && !names.has(""));
        let here = names.and_here(IpAddr::V4(Ipv4Addr::LOCALHOST));
        for name in ["localhost", "127.0.0.1", "::1", "server.example"] {
            assert!(here.has(name), "{name}");
        }
        assert!(!here.has("other.example") && !here.has("127.0.0.2"));
    }

    #[test]
    fn the_bytes_of_an_address_are_four_or_sixteen() {
        assert_eq!(
            address(&[127, 0, 0, 1]),
            Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
        );
        let mut six = [0; 16];
        six[15] = 1;
        assert_eq!(address(&six), Some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert_eq!(address(&[1; 5]), None);
    }
}
