//! What operations cost, in statements and pages: the same per entry in a large directory as in a small one.

use strongroom_metadata::{InodeId, NodeKind, Statement, Store};

use crate::fixture::{Folder, entry, inode};

const LARGE: u64 = 100_000;
const SMALL: u64 = 1_000;

fn fill(store: &Store, directory: InodeId, count: u64) {
    let mut transaction = store.lock();
    for number in 0..count {
        let cookie = transaction.next_cookie();
        transaction
            .insert_entry(directory, &entry(&name(number), 7, cookie))
            .unwrap();
    }
    transaction.commit().unwrap();
}

/// Names in an order that has nothing to do with that of creation.
fn name(number: u64) -> String {
    format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Statements that ran during `work`.
fn statements(store: &Store, work: impl FnOnce()) -> u64 {
    let before = store.counters().statements;
    work();
    store.counters().statements - before
}

#[test]
fn a_directory_of_100_000_entries_costs_per_entry_what_one_of_1_000_does() {
    let folder = Folder::new();
    let store = folder.create();
    for (directory, count) in [(InodeId(10), SMALL), (InodeId(11), LARGE)] {
        let inserted = statements(&store, || fill(&store, directory, count));
        // One statement an entry; BEGIN, the counters, pages and free pages, COMMIT; now and then a look at the pages.
        assert!(
            (count + 5..=count + 5 + count / 256).contains(&inserted),
            "{inserted} statements for {count}"
        );

        let mut seen = 0;
        let mut after = 0;
        let listed = statements(&store, || {
            loop {
                let page = store.lock().entries(directory, after, 500).unwrap();
                let Some(last) = page.last() else { break };
                assert!(page.is_sorted_by_key(|entry| entry.cookie));
                after = last.cookie;
                seen += page.len() as u64;
            }
        });
        assert_eq!((seen, listed), (count, count / 500 + 1));

        let looked_up = statements(&store, || {
            for number in (0..count).step_by(97) {
                assert!(
                    store
                        .lock()
                        .entry(directory, name(number).as_bytes())
                        .unwrap()
                        .is_some()
                );
            }
        });
        assert_eq!(looked_up, count.div_ceil(97));

        let removed = statements(&store, || {
            let mut transaction = store.lock();
            for number in 0..count {
                assert!(
                    transaction
                        .remove_entry(directory, name(number).as_bytes())
                        .unwrap()
                );
            }
            assert!(transaction.is_empty(directory).unwrap());
            transaction.commit().unwrap();
        });
        assert!(
            (count + 4..=count + 4 + count / 256).contains(&removed),
            "{removed} statements for {count}"
        );
    }
}

/// A plan that scans or sorts would make the cost grow with the directory, whatever the count of statements.
#[test]
fn no_statement_scans_a_table_or_sorts_but_those_that_are_to_give_all_of_it() {
    let whole = [
        Statement::InodeCount,
        Statement::InodeAll,
        Statement::EntryAll,
        Statement::RegionAll,
        Statement::BlockAll,
        Statement::SegmentList,
        Statement::HoleList,
        Statement::ReservationList,
        Statement::WaitingList,
        Statement::WaitingBytes,
        Statement::RevisionList,
        Statement::HashAll,
        Statement::RemoteList,
    ];
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    connection
        .execute_batch(&strongroom_metadata::SCHEMA.concat())
        .unwrap();
    let mut explained = 0;
    for statement in Statement::ALL {
        let text = statement.text();
        if !["SELECT", "UPDATE", "DELETE", "INSERT"]
            .iter()
            .any(|verb| text.starts_with(verb))
        {
            continue;
        }
        let mut prepared = connection
            .prepare(&format!("EXPLAIN QUERY PLAN {text}"))
            .unwrap();
        let parameters = vec![rusqlite::types::Null; prepared.parameter_count()];
        let plan = prepared
            .query_map(rusqlite::params_from_iter(parameters), |row| {
                row.get::<_, String>(3)
            })
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        explained += plan.len();
        for line in plan {
            assert!(!line.contains("TEMP B-TREE"), "{statement:?} sorts: {line}");
            assert!(
                whole.contains(statement) || !line.starts_with("SCAN"),
                "{statement:?} scans: {line}"
            );
            let covered = !matches!(statement, Statement::EntryList | Statement::EntryAny);
            assert!(
                covered || line.contains("COVERING INDEX"),
                "{statement:?} looks each row up: {line}"
            );
        }
    }
    assert!(explained > 30, "{explained} lines");
}

#[test]
fn a_new_inode_is_stored_by_one_statement_and_a_changed_one_too() {
    let folder = Folder::new();
    let store = folder.create();
    store
        .lock()
        .put_setting("open", b"the transaction")
        .unwrap();
    let mut transaction = store.lock();
    for id in 1..=100 {
        let before = store.counters().statements;
        transaction.put_inode(&inode(id, NodeKind::File)).unwrap();
        assert_eq!(store.counters().statements - before, 1);
        transaction
            .put_inode(&inode(id / 2 + 1, NodeKind::File))
            .unwrap();
        let stored = store.counters().statements - before;
        assert!(
            stored == 2 || (id == 1 && stored <= 3),
            "{stored} statements for inode {id}"
        );
    }
}

#[test]
fn the_estimate_of_dirty_pages_is_no_less_than_what_the_commit_writes() {
    let folder = Folder::new();
    let store = folder.create();
    for count in [1, 10, 100, 5_000] {
        let directory = InodeId(100 + count);
        let mut transaction = store.lock();
        for number in 0..count {
            let cookie = transaction.next_cookie();
            transaction
                .insert_entry(directory, &entry(&name(number), 7, cookie))
                .unwrap();
        }
        let estimate = transaction.dirty_pages();
        assert_eq!(store.dirty_pages(), estimate);
        let before = store.counters().disk.log.bytes;
        transaction.commit().unwrap();
        let written = (store.counters().disk.log.bytes - before) / 4096;
        assert!(
            written <= estimate + 4,
            "{count} entries: {written} pages written, {estimate} estimated"
        );
        assert_eq!(store.dirty_pages(), 0);
    }
}
