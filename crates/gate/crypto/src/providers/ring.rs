//! The provider over the `ring` library: BoringSSL's assembly. It is in every build.

super::like_ring::like_ring!(
    Ring,
    "ring",
    ring,
    "ring",
    |key: &LessSafeKey, nonce, chunk, tag: &[u8; TAG_BYTES]| {
        key.open_in_place_separate_tag(nonce, Aad::empty(), aead::Tag::from(*tag), chunk, 0..)
            .map(drop)
    }
);
