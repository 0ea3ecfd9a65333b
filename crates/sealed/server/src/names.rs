//! The names by which devices reach the server: each login is for one of these names.
//!
//! Takes   the certificate of the server, and the names that its operator gives
//! Gives   whether a name is one of its own
//! Never   believes the host that a request states
//! Spec    spec/11-sync.md, [11.11.3]

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use openssl::x509::X509;

/// What a fingerprint begins with that is a name.
const FINGERPRINT: &str = "sha256:";

/// Names, as URLs have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(BTreeSet<String>);

impl Names {
    /// Those that the operator gave, as devices say them: a fingerprint without colons, an address without brackets.   [11.11.3]
    pub(crate) fn given(names: &[String]) -> Self {
        let said = |name: &String| {
            let name = name.trim_matches(['[', ']']).to_ascii_lowercase();
            let digits = name.strip_prefix(FINGERPRINT);
            let digits = digits.map(|digits| digits.replace(':', ""));
            digits.map_or(name, |digits| format!("{FINGERPRINT}{digits}"))
        };
        Self(names.iter().map(said).collect())
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
        self.0.insert(format!("{FINGERPRINT}{fingerprint}"));
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
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use openssl::asn1::Asn1Time;
    use openssl::ec::{EcGroup, EcKey};
    use openssl::error::ErrorStack;
    use openssl::hash::MessageDigest;
    use openssl::nid::Nid;
    use openssl::pkey::PKey;
    use openssl::x509::extension::SubjectAlternativeName;

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

    /// Goal: an operator may copy a name from where it is shown. Method: a fingerprint as `openssl` shows it, an address as a URL has it.
    #[test]
    fn a_name_may_be_given_as_it_is_shown() {
        let given = ["sha256:0F:A1".to_owned(), "[::1]".to_owned()];
        let names = Names::given(&given);
        assert_eq!(
            names,
            Names(["sha256:0fa1", "::1"].map(str::to_owned).into())
        );
    }

    /// The bytes of a certificate for these names, and for an address.
    fn certificate(names: &[&str], address: &str) -> Result<Vec<u8>, ErrorStack> {
        let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
        let key = PKey::from_ec_key(EcKey::generate(&group)?)?;
        let mut builder = X509::builder()?;
        builder.set_version(2)?;
        builder.set_pubkey(&key)?;
        builder.set_not_before(&*Asn1Time::days_from_now(0)?)?;
        builder.set_not_after(&*Asn1Time::days_from_now(1)?)?;
        let mut all = SubjectAlternativeName::new();
        for name in names {
            all.dns(name);
        }
        let all = all.ip(address).build(&builder.x509v3_context(None, None))?;
        builder.append_extension(all)?;
        builder.sign(&key, MessageDigest::sha256())?;
        builder.build().to_der()
    }

    /// Goal: nobody is taken for this server who shares a name with many. Method: a certificate with a name of its own, one with a star, and
    /// an address; and bytes that are none.
    #[test]
    fn a_certificate_gives_its_names_but_none_with_a_star() {
        let bytes = certificate(&["Server.Example", "*.example.org"], "2001:db8::1");
        let names = Names::default().and_of(&bytes.unwrap(), "0f");
        for name in ["sha256:0f", "server.example", "2001:db8::1"] {
            assert!(names.has(name), "{name}");
        }
        for name in ["*.example.org", "a.example.org", "localhost", "sha256:00"] {
            assert!(!names.has(name), "{name}");
        }
        let none = Names::default().and_of(b"no certificate", "0f");
        assert_eq!(none, Names(["sha256:0f".to_owned()].into()));
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
