//! TLS to a server whose certificate is recognized by its fingerprint, instead of by a certificate authority.
//! `server_remote.rs` uses it if the URL has `?fingerprint=`; without that, `reqwest` checks the certificate as usual.
//!
//! Takes   the fingerprint: SHA-256 of the certificate, as `openssl x509 -fingerprint -sha256` shows it
//! Gives   the client configuration for TLS
//! Never   accepts another certificate, however it is signed, or checks host name or dates: the fingerprint is enough

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme,
};
use sha2::{Digest, Sha256};

/// SHA-256 of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The one that `text` spells: 64 hexadecimal digits, with or without colons.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if !text.is_ascii() || text.len() > 95 {
            return None;
        }
        let digits = text.replace(':', "");
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, at) in bytes.iter_mut().zip((0..64).step_by(2)) {
            let pair = &digits[at..at + 2];
            if pair.starts_with('+') {
                return None;
            }
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// Its 64 digits, in lower case.
    pub(crate) fn digits(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// How to speak to the server that has this certificate.
///
/// # Errors
/// Of the library, if it has no version of TLS.
pub(crate) fn only(fingerprint: Fingerprint) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = Pinned {
        fingerprint,
        provider: Arc::clone(&provider),
    };
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        let found: [u8; 32] = Sha256::digest(end_entity).into();
        match found == self.fingerprint.0 {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let known = &self.provider.signature_verification_algorithms;
        known.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_tools_show_it_and_nothing_else_is_one() {
        let plain = "0123456789abcdef".repeat(4);
        let pairs: Vec<&str> = (0..64).step_by(2).map(|at| &plain[at..at + 2]).collect();
        let shown = pairs.join(":").to_uppercase();
        assert!(Fingerprint::parse(&plain).is_some());
        assert_eq!(Fingerprint::parse(&plain), Fingerprint::parse(&shown));
        for bad in [
            "",
            "00",
            &plain[1..],
            &format!("{plain}0"),
            &"+f".repeat(32),
            &"ä".repeat(32),
        ] {
            assert_eq!(Fingerprint::parse(bad), None, "{bad}");
        }
    }
}
