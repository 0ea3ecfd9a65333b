//! Which header files are accepted and which are refused, without any key.

use super::*;
use crate::limits::{ARGON2_MEMORY_KIB_MIN, KEM_PUBLIC_BYTES};
use crate::{Change, Commitment, PublicKeys, RecordBody, Role};

fn slot(number: u8, lock: Lock) -> Slot {
    let label = format!("slot {number}");
    Slot {
        id: SlotId([number; 8]),
        label,
        created_s: 7,
        principal: PrincipalId([number; 32]),
        lock,
        sealed: vec![9; 150],
    }
}

fn argon2() -> Argon2Parameters {
    Argon2Parameters {
        memory_kib: ARGON2_MEMORY_KIB_MIN,
        passes: 3,
        lanes: 1,
        salt: [4; 16],
    }
}

fn header() -> Header {
    let keys = PublicKeys {
        signing: [1; 32],
        kem: Box::new([2; KEM_PUBLIC_BYTES]),
    };
    let changes = vec![
        Change::Add {
            role: Role::Device,
            keys,
        },
        Change::Begin {
            epoch: Epoch(0),
            commitment: Commitment([3; 32]),
        },
    ];
    let body = RecordBody {
        sequence: 0,
        link: [5; 32],
        author: PrincipalId([6; 32]),
        changes,
    };
    Header {
        vault: VaultId(body.id().0),
        generation: 4,
        suite: SuiteId::Aes256GcmBlake3,
        guessable_changes: 0,
        withheld: None,
        records: vec![body.signed([7; 64])],
        slots: vec![
            slot(1, Lock::Passphrase(argon2())),
            slot(2, Lock::RecoveryCode),
            slot(3, Lock::KeyFile),
            slot(4, Lock::Age),
            slot(5, Lock::Ssh),
        ],
        grants: vec![Grant {
            epoch: Epoch(0),
            principal: PrincipalId([1; 32]),
            bytes: Box::new([8; GRANT_BYTES]),
        }],
    }
}

fn encode(header: &Header) -> Vec<u8> {
    header
        .encode(|bytes| *blake3::hash(bytes).as_bytes())
        .unwrap()
}

/// The file with `from` replaced by `to`, and with a checksum that fits, as someone who edits it would make.
fn edited(from: &str, to: &str) -> Result<StoredHeader, FormatError> {
    let text = String::from_utf8(encode(&header())).unwrap();
    let (body, _) = text.rsplit_once("  \"checksum\"").unwrap();
    assert!(body.contains(from), "{from}");
    Header::decode(&json_file::close_object(
        body.replacen(from, to, 1).into_bytes(),
    ))
}

fn field_error(result: Result<StoredHeader, FormatError>) -> String {
    match result.unwrap_err() {
        FormatError::Field { why, .. } => why,
        other => panic!("{other:?} is not about a field"),
    }
}

#[test]
fn a_header_comes_back_with_the_bytes_its_mac_covers() {
    let bytes = encode(&header());
    let stored = Header::decode(&bytes).unwrap();
    assert_eq!(stored.header, header());
    assert_eq!(
        stored.mac,
        *blake3::hash(&bytes[..stored.covered_bytes]).as_bytes()
    );
}

#[test]
fn a_header_cut_anywhere_is_damaged() {
    let bytes = encode(&header());
    for len in (0..bytes.len())
        .step_by(7)
        .chain(bytes.len() - 200..bytes.len())
    {
        assert_eq!(
            Header::decode(&bytes[..len]),
            Err(FormatError::Damaged { what: WHAT })
        );
    }
}

#[test]
fn a_bit_flipped_anywhere_is_damage() {
    let bytes = encode(&header());
    for place in (0..bytes.len())
        .step_by(11)
        .chain(bytes.len() - 200..bytes.len())
    {
        let mut bytes = bytes.clone();
        bytes[place] ^= 1 << (place % 8);
        assert_eq!(
            Header::decode(&bytes),
            Err(FormatError::Damaged { what: WHAT }),
            "{place}"
        );
    }
}

#[test]
fn an_unknown_format_is_named() {
    let error = FormatError::UnknownFormat {
        what: WHAT,
        found: 2,
        known: 1,
    };
    assert!(error.to_string().ends_with("use a newer version"));
    assert_eq!(edited("\"format\": 1", "\"format\": 2"), Err(error));
}

/// A vault of format 0 has other chunks: it must not look damaged, and who has one must learn what opens it.
#[test]
fn a_header_of_format_0_is_refused_with_what_to_do() {
    let error = FormatError::UnknownFormat {
        what: WHAT,
        found: 0,
        known: 1,
    };
    assert!(
        error
            .to_string()
            .contains("copy the files out with the version that made the vault")
    );
    assert_eq!(edited("\"format\": 1", "\"format\": 0"), Err(error));
}

#[test]
fn an_unknown_flag_is_named() {
    let error = FormatError::UnknownFlag {
        what: WHAT,
        flag: "padded".to_owned(),
    };
    assert_eq!(
        edited("\"flags\": []", "\"flags\": [\"padded\"]"),
        Err(error)
    );
}

#[test]
fn an_unknown_suite_is_named() {
    assert_eq!(
        edited("\"suite\": 1", "\"suite\": 4"),
        Err(FormatError::UnknownSuite {
            what: WHAT,
            suite: 4
        })
    );
}

#[test]
fn unknown_missing_and_double_fields_are_named_at_every_level() {
    assert!(
        field_error(edited("\"suite\": 1", "\"suite\": 1, \"colour\": 2"))
            .contains("unknown field `colour`")
    );
    assert!(
        field_error(edited("\"lanes\": 1", "\"lanes\": 1, \"colour\": 2"))
            .contains("unknown field `colour`")
    );
    assert!(
        field_error(edited("\"label\"", "\"colour\": 2, \"label\""))
            .contains("unknown field `colour`")
    );
    assert!(
        field_error(edited("\"epoch\": 0", "\"epoch\": 0, \"colour\": 2"))
            .contains("unknown field `colour`")
    );
    assert!(field_error(edited("\"suite\": 1,", "")).contains("missing field `suite`"));
    assert!(
        field_error(edited("\"suite\": 1", "\"suite\": 1, \"suite\": 1"))
            .contains("duplicate field `suite`")
    );
    assert!(
        field_error(edited("\"recovery-code\"", "\"palm\"")).contains("unknown variant `palm`")
    );
}

#[test]
fn an_error_repeats_hostile_text_cut_and_escaped() {
    let flag = format!("\"flags\": [\"\\u001b{}\"]", "x".repeat(100_000));
    let FormatError::UnknownFlag { flag, .. } = edited("\"flags\": []", &flag).unwrap_err() else {
        panic!("no flag")
    };
    assert!(flag.starts_with("\\u{1b}xxx"));
    assert!(flag.len() < 1000);
}

#[test]
fn argon2_beyond_a_ceiling_is_named() {
    for (parameter, from, to) in [
        (
            "memory_kib",
            "\"memory_kib\": 65536",
            "\"memory_kib\": 4194305",
        ),
        ("memory_kib", "\"memory_kib\": 65536", "\"memory_kib\": 7"),
        ("passes", "\"passes\": 3", "\"passes\": 65"),
        ("passes", "\"passes\": 3", "\"passes\": 0"),
        ("lanes", "\"lanes\": 1", "\"lanes\": 17"),
        ("lanes", "\"lanes\": 1", "\"lanes\": 0"),
    ] {
        match edited(from, to) {
            Err(FormatError::Argon2OutOfRange {
                parameter: found, ..
            }) => assert_eq!(found, parameter),
            other => panic!("{to}: {other:?}"),
        }
    }
}

#[test]
fn argon2_work_of_all_slots_together_is_bounded() {
    let mut header = header();
    let costly = Argon2Parameters {
        memory_kib: ARGON2_MEMORY_KIB_MAX,
        passes: 10,
        ..argon2()
    };
    header.slots = vec![
        slot(1, Lock::Passphrase(costly.clone())),
        slot(2, Lock::Passphrase(costly)),
    ];
    assert!(matches!(
        header.encode(|_| [0; 32]),
        Err(FormatError::Argon2OutOfRange { .. })
    ));
    header.slots.pop();
    assert!(header.encode(|_| [0; 32]).is_ok());
}

#[test]
fn argon2_belongs_to_passphrases_only() {
    assert!(matches!(
        edited("\"passphrase\"", "\"key-file\""),
        Err(FormatError::Invalid { .. })
    ));
    assert!(matches!(
        edited("\"recovery-code\"", "\"passphrase\""),
        Err(FormatError::Invalid { .. })
    ));
}

#[test]
fn too_many_of_anything_is_refused_on_both_ways() {
    let mut many = header();
    many.slots = (0..=SLOTS_MAX)
        .map(|number| slot(u8::try_from(number).unwrap(), Lock::KeyFile))
        .collect();
    assert!(matches!(
        many.encode(|_| [0; 32]),
        Err(FormatError::TooLong {
            what: "list of key slots",
            ..
        })
    ));

    let grants = "{\"epoch\": 1, \"principal\": \"\", \"sealed\": \"\"}, ".repeat(GRANTS_MAX);
    let result = edited("\"grants\": [", &format!("\"grants\": [{grants}"));
    assert!(matches!(
        result,
        Err(FormatError::TooLong {
            what: "list of grants",
            ..
        })
    ));

    let records = "\"\", ".repeat(RECORDS_MAX);
    let result = edited("\"membership\": [", &format!("\"membership\": [{records}"));
    assert!(matches!(
        result,
        Err(FormatError::TooLong {
            what: "membership chain",
            ..
        })
    ));

    let slot = format!("\"sealed\": \"{}", "A".repeat(SLOT_SEALED_BYTES_MAX * 2));
    assert!(matches!(
        edited("\"sealed\": \"", &slot),
        Err(FormatError::TooLong { .. })
    ));
}

#[test]
fn a_header_longer_than_its_bound_is_refused_unparsed() {
    let bytes = vec![b'['; HEADER_BYTES_MAX + 1];
    assert!(matches!(
        Header::decode(&bytes),
        Err(FormatError::TooLong { what: WHAT, .. })
    ));
    let nested = vec![b'['; HEADER_BYTES_MAX];
    assert_eq!(
        Header::decode(&nested),
        Err(FormatError::Damaged { what: WHAT })
    );
}

#[test]
fn labels_that_could_deceive_a_terminal_are_refused() {
    for label in ["a\u{1b}[2J", "a\nb", "\u{202e}gnp", "a\u{2066}b"] {
        assert!(
            matches!(check_label(label), Err(FormatError::Invalid { .. })),
            "{label:?}"
        );
    }
    assert!(matches!(
        check_label(&"x".repeat(LABEL_BYTES_MAX + 1)),
        Err(FormatError::TooLong { .. })
    ));
    assert_eq!(check_label("Büro, 2. Stock"), Ok(()));
}

#[test]
fn two_slots_of_one_name_and_a_double_grant_are_refused() {
    let mut twins = header();
    twins.slots[1].id = twins.slots[0].id;
    assert!(matches!(
        twins.encode(|_| [0; 32]),
        Err(FormatError::Invalid { .. })
    ));
    let mut twins = header();
    twins.grants.push(twins.grants[0].clone());
    assert!(matches!(
        twins.encode(|_| [0; 32]),
        Err(FormatError::Invalid { .. })
    ));
}

#[test]
fn the_mac_must_be_the_line_before_the_checksum() {
    let text = String::from_utf8(encode(&header())).unwrap();
    let (body, _) = text.rsplit_once("  \"checksum\"").unwrap();
    let (before, mac) = body.rsplit_once("  \"mac\"").unwrap();
    let moved = before.replacen("{\n", &format!("{{\n  \"mac\"{mac}"), 1);
    let result = Header::decode(&json_file::close_object(moved.into_bytes()));
    assert_eq!(result, Err(invalid("has its MAC in the wrong place")));
}

#[test]
fn a_slot_id_reads_back_as_it_is_shown() {
    let id = SlotId([0xa5; 8]);
    assert_eq!(id.to_string().parse(), Ok(id));
    assert!("A5".parse::<SlotId>().is_err());
}
