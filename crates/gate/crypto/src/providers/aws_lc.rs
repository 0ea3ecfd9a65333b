//! The provider over `aws-lc-rs`: AWS-LC's assembly, optimized for AVX-512 and large Arm cores.

super::like_ring::like_ring!(
    AwsLc,
    "aws-lc",
    aws_lc_rs,
    "aws-lc-rs",
    |key: &LessSafeKey, nonce, chunk, tag: &[u8; TAG_BYTES]| {
        key.open_in_place_separate_tag(nonce, Aad::empty(), tag, chunk)
            .map(drop)
    }
);
