//! Texts that several devices changed: merged lines where that is safe, two files where it is not, the same result on every device.

use super::*;

/// Lines `first` to `last`, each with its number.
fn lines(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("line {number}\n"))
        .collect()
}

/// Writes `path` in place, as a program that keeps the file.
fn rewrite(vault: &Vault, path: &str, text: &str) {
    vault.write(path, text.as_bytes()).unwrap();
}

fn text(vault: &Vault, path: &str) -> String {
    String::from_utf8(vault.read(path).unwrap()).unwrap()
}

fn paths(paths: &[Vec<u8>]) -> Vec<String> {
    let paths = paths.iter().cloned();
    paths.map(|path| String::from_utf8(path).unwrap()).collect()
}

/// SECURITY.md, claim 21.
#[test]
fn a_text_that_three_devices_wrote_in_different_lines_has_the_lines_of_all() {
    let base = lines(20_000);
    let devices = Devices::new(3, |vault| {
        rewrite(vault, "/letter.txt", &base.concat());
        vault
            .set_xattr(
                "/letter.txt",
                Links::Stay,
                "user.color",
                "blue",
                XattrMode::Set,
            )
            .unwrap();
    });
    devices.settle();
    let mut expected = base.clone();
    for (number, vault) in devices.vaults.iter().enumerate() {
        let mut mine = base.clone();
        let at = 100 + 9_000 * number;
        mine[at] = format!("of device {number}\n");
        mine[at + 10].clear();
        expected[at] = mine[at].clone();
        expected[at + 10].clear();
        rewrite(vault, "/letter.txt", &mine.concat());
    }
    let set = SetAttributes {
        mode: Some(0o600),
        ..SetAttributes::default()
    };
    devices.vaults[0]
        .set_attributes("/letter.txt", Links::Stay, &set)
        .unwrap();
    let newest = |vault: &Vault| vault.attributes("/letter.txt", Links::Stay).unwrap().mtime;
    let before = devices.vaults.iter().map(newest).max().unwrap();
    // Open files show it too.
    let open = devices.vaults[1]
        .open_file("/letter.txt", FileOptions::new().read())
        .unwrap();
    devices.sync(0);
    let report = devices.sync(1);
    assert_eq!(
        (report.pulled.merged, report.pulled.conflicts),
        (1, 0),
        "{report:?}"
    );
    assert_eq!(paths(&report.pulled.merged_paths), ["/letter.txt"]);
    let mut start = [0; 1_100];
    assert_eq!(open.read_at(&mut start, 0).unwrap(), start.len());
    assert!(String::from_utf8_lossy(&start).contains("of device 0\n"));
    devices.settle();
    let all = devices.assert_same();
    assert_eq!(text(&devices.vaults[0], "/letter.txt"), expected.concat());
    assert_eq!(all.len(), 1);
    let stat = devices.vaults[0]
        .attributes("/letter.txt", Links::Stay)
        .unwrap();
    assert!(stat.mtime > before && stat.ctime > before);
    assert_eq!(stat.mode, 0o600);
    // Nobody answers a merge with another.
    devices.assert_at_rest();
}

#[test]
fn lines_that_two_devices_wrote_in_one_place_and_what_is_no_text_are_kept_twice() {
    let long = "x".repeat(5 << 20);
    let contents = |one: &str, other: &str| -> Vec<(&'static str, Vec<u8>)> {
        vec![
            ("/same line", format!("{one}{other}\nb\nc\n").into()),
            ("/next line", format!("{one}\n{other}\nc\n").into()),
            ("/long line", format!("{one}\n{long}\n{other}\n").into()),
            ("/zero", format!("{one}\n\0\n{other}\n").into()),
            (
                "/latin",
                [one.as_bytes(), b"\n\xe4\n", other.as_bytes(), b"\n"].concat(),
            ),
        ]
    };
    let write = |vault: &Vault, contents: Vec<(&'static str, Vec<u8>)>| {
        for (path, bytes) in contents {
            vault.write(path, bytes).unwrap();
        }
    };
    let devices = Devices::new(2, |vault| write(vault, contents("a", "b")));
    devices.settle();
    write(&devices.vaults[0], contents("A", "b"));
    write(&devices.vaults[1], contents("a", "B"));
    devices.sync(0);
    let report = devices.sync(1);
    assert_eq!(
        (report.pulled.merged, report.pulled.conflicts),
        (0, 5),
        "{report:?}"
    );
    devices.settle();
    assert_eq!(devices.assert_same().len(), 10);
    for (path, bytes) in contents("A", "b") {
        assert_eq!(devices.vaults[1].read(path).unwrap(), bytes, "{path}");
    }
    let copies = paths(&report.pulled.conflict_paths);
    let mut copied: Vec<Vec<u8>> = copies
        .iter()
        .map(|path| devices.vaults[0].read(&**path).unwrap())
        .collect();
    let mut mine: Vec<Vec<u8>> = contents("a", "B")
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect();
    copied.sort_unstable();
    mine.sort_unstable();
    assert!(copied == mine);
}

/// Writes `path` as a program does that writes a new file and gives it the name of the old one.
fn replace(vault: &Vault, path: &str, text: &str) {
    vault.write("/new", text.as_bytes()).unwrap();
    vault.rename("/new", path, RenameMode::Replace).unwrap();
}

/// Goal: merges of equal contents are equal bytes. Method: two devices each merge what both wrote, because each hears of the other by
/// another remote; then they hear of each other's merges. It makes no difference how programs write.
#[test]
fn two_devices_that_merge_the_same_texts_apart_from_each_other_agree() {
    type Write = fn(&Vault, &str, &str);
    let ways: [(&str, Write, Write); 4] = [
        ("/in place", rewrite, rewrite),
        ("/both replace", replace, replace),
        ("/one replaces", replace, rewrite),
        ("/two replaces", rewrite, replace),
    ];
    let edited = |at: usize, what: &str| {
        let mut text = lines(30_000);
        text[at] = what.to_owned();
        text.concat()
    };
    let devices = Devices::new(2, |vault| {
        for (path, ..) in ways {
            rewrite(vault, path, &lines(30_000).concat());
        }
    });
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    let other = devices.place.directory.path().join("other");
    fs::create_dir(&other).unwrap();
    let address = format!("folder:{}", other.display());
    one.add_remote("other", &address).unwrap();
    two.add_remote("other", &address).unwrap();
    let sync = |vault: &Vault, name: &str| vault.sync_with(name, &mut |_| GoOn::Yes).unwrap();
    let pull = |vault: &Vault, name: &str| vault.pull(name, &mut |_| GoOn::Yes).unwrap();
    let everywhere = [
        (one, NAME),
        (one, "other"),
        (two, CLONED_FROM),
        (two, "other"),
    ];
    for _ in 0..2 {
        for (vault, name) in everywhere {
            sync(vault, name);
        }
    }
    for (path, write_one, write_two) in ways {
        write_one(one, path, &edited(17, "from one\n"));
        write_two(two, path, &edited(29_000, "from two\n"));
    }
    one.push(NAME, &mut |_| GoOn::Yes).unwrap();
    two.push("other", &mut |_| GoOn::Yes).unwrap();
    for (vault, name) in [(one, "other"), (two, CLONED_FROM)] {
        let report = pull(vault, name);
        assert_eq!((report.merged, report.conflicts), (4, 0), "{report:?}");
    }
    let mut expected = lines(30_000);
    expected[17] = "from one\n".to_owned();
    expected[29_000] = "from two\n".to_owned();
    for (path, ..) in ways {
        let stat = |vault: &Vault| {
            let stat = vault.attributes(path, Links::Stay).unwrap();
            (stat.mtime, stat.ctime, stat.mode)
        };
        assert_eq!(stat(one), stat(two), "{path}");
        for vault in [one, two] {
            assert!(text(vault, path) == expected.concat(), "{path}");
        }
    }
    for _ in 0..2 {
        for (vault, name) in everywhere {
            let report = sync(vault, name);
            assert_eq!(report.pulled.conflicts, 0, "{report:?}");
        }
    }
    assert_eq!(devices.assert_same().len(), 4);
    for (path, ..) in ways {
        assert!(text(one, path) == expected.concat(), "{path}");
    }
    let says_something =
        |(vault, name): &(&Vault, &str)| sync(vault, name) != SyncReport::default();
    assert!((0..5).any(|_| everywhere.into_iter().filter(says_something).count() == 0));
}

/// Goal: who has not what both began with does not guess. Method: the snapshot that both had in common is removed.
#[test]
fn texts_whose_beginning_is_gone_are_kept_twice() {
    let devices = Devices::new(2, |vault| rewrite(vault, "/letter", &lines(50).concat()));
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    let edit = |vault: &Vault, at: usize| {
        let mut text = lines(50);
        text[at] = "new\n".to_owned();
        rewrite(vault, "/letter", &text.concat());
    };
    edit(one, 1);
    edit(two, 40);
    let before: Vec<_> = two.revisions().unwrap().iter().map(|one| one.id).collect();
    two.take_revision(&NewRevision::default()).unwrap();
    for id in before {
        two.remove_revision(id).unwrap();
    }
    devices.sync(0);
    let report = devices.sync(1);
    assert_eq!(
        (report.pulled.merged, report.pulled.conflicts),
        (0, 1),
        "{report:?}"
    );
    devices.settle();
    assert_eq!(devices.assert_same().len(), 2);
}

/// Goal: a pull does not fail because merged texts take room. Method: a quota that leaves less than a text takes.
#[test]
fn without_room_for_what_is_merged_both_texts_stay() {
    let text_of = |at: usize| {
        let mut text = lines(200_000 / 3);
        text[at] = format!("{}\n", "x".repeat(3 << 20));
        text.concat()
    };
    let devices = Devices::new(2, |vault| rewrite(vault, "/letter", &text_of(30_000)));
    let [one, two] = &devices.vaults[..] else {
        panic!()
    };
    devices.settle();
    let edited = |what: &str, at: usize| text_of(30_000).replacen(&format!("line {at}\n"), what, 1);
    rewrite(one, "/letter", &edited("from one\n", 100));
    rewrite(two, "/letter", &edited("from two\n", 60_000));
    devices.sync(0);
    two.sync().unwrap();
    let mut quota = 1 << 30;
    two.set_quota(Some(quota)).unwrap();
    while two.space().unwrap().free_bytes > 1 << 20 {
        quota -= two.space().unwrap().free_bytes / 2;
        two.set_quota(Some(quota)).unwrap();
    }
    let report = two.pull(CLONED_FROM, &mut |_| GoOn::Yes).unwrap();
    assert_eq!((report.merged, report.conflicts), (0, 1), "{report:?}");
    two.set_quota(None).unwrap();
    devices.settle();
    devices.assert_same();
    let copy = paths(&report.conflict_paths).remove(0);
    assert!(text(one, "/letter") == edited("from one\n", 100));
    assert!(text(one, &copy) == edited("from two\n", 60_000));
}

/// Goal: whatever three devices write where, each line that one of them wrote is in a file in the end, and all have the same files.
#[test]
fn random_edits_of_three_devices_lose_no_line_and_end_in_the_same_files() {
    for seed in 1..=3_u64 {
        let mut random = content(4_000, seed).into_iter();
        let mut below = |bound: usize| {
            let pair = [random.next().unwrap(), random.next().unwrap()];
            usize::from(u16::from_le_bytes(pair)) % bound
        };
        let devices = Devices::new(3, |vault| {
            for file in 0..3 {
                rewrite(vault, &format!("/{file}"), &lines(60).concat());
            }
        });
        devices.settle();
        let mut wrote = Vec::new();
        for round in 0..6 {
            for (number, vault) in devices.vaults.iter().enumerate() {
                for edit in 0..below(3) {
                    let path = format!("/{}", below(3));
                    let before = text(vault, &path);
                    let mut text: Vec<&str> = before.split_inclusive('\n').collect();
                    let line = format!("{round} {number} {edit}\n");
                    // Behind some line, so that nothing which somebody wrote goes.
                    text.insert(below(text.len() + 1), &line);
                    rewrite(vault, &path, &text.concat());
                    wrote.push(line);
                }
            }
            devices.sync(below(3));
        }
        devices.settle();
        let all = devices.assert_same();
        let mut there = String::new();
        for path in all.keys() {
            there += &text(&devices.vaults[0], path);
        }
        for line in &wrote {
            assert!(
                there.lines().any(|one| one == line.trim_end()),
                "seed {seed}: {line:?} is lost"
            );
        }
        devices.assert_at_rest();
    }
}
