//! Tries compared with a plain map, in memory.

use std::collections::{BTreeMap, HashMap};

use proptest::prelude::*;

use super::*;

/// Items of a test: a number, spread by a mixed key, and as long as it says.
struct Numbers;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Number {
    number: u64,
    len: usize,
}

impl Trie for Numbers {
    type Item = Number;
    const KIND: Kind = Kind::TreeNode;
    const ITEM_BYTES_MIN: u64 = 4;

    fn key(item: &Number) -> Key {
        key(item.number)
    }

    fn encode(item: &Number, encoder: &mut Encoder) {
        encoder
            .array(2)
            .unsigned(item.number)
            .bytes(&vec![7; item.len]);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Number> {
        decoder.array_exact(2)?;
        let number = decoder.unsigned()?;
        let len = decoder.bytes(10_000)?.len();
        Ok(Number { number, len })
    }

    fn names(_: &Number, _: &mut Vec<BlockId>) {}
}

/// Mixed, but with long common beginnings for some.
fn key(number: u64) -> Key {
    let mut key = [0; 32];
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let shift = if number.is_multiple_of(5) { 40 } else { 0 };
    key[..8].copy_from_slice(&(mixed >> shift).to_be_bytes());
    key[24..].copy_from_slice(&number.to_be_bytes());
    Key(key)
}

#[derive(Default)]
struct Memory {
    blocks: HashMap<BlockId, Vec<u8>>,
    puts: usize,
}

impl Blocks for Memory {
    type Error = Error;

    fn open(&self, _: Kind, id: &BlockId) -> Result<Option<Vec<u8>>> {
        Ok(self.blocks.get(id).cloned())
    }
}

impl Sink for Memory {
    fn put(&mut self, _: Kind, bytes: &[u8], _: Vec<BlockId>) -> Result<BlockId> {
        let id = BlockId(*blake3::hash(bytes).as_bytes());
        self.blocks.insert(id, bytes.to_vec());
        self.puts += 1;
        Ok(id)
    }
}

fn sorted(map: &BTreeMap<u64, usize>) -> Vec<Number> {
    let mut items: Vec<Number> = map
        .iter()
        .map(|(&number, &len)| Number { number, len })
        .collect();
    items.sort_by_key(|item| key(item.number));
    items
}

fn from_nothing(memory: &mut Memory, map: &BTreeMap<u64, usize>) -> Option<Ref> {
    let items = sorted(map);
    let keys: Vec<Key> = items.iter().map(Numbers::key).collect();
    build::<Numbers, _>(memory, 0, &keys, &mut |_, index| Ok(items[index].clone())).unwrap()
}

fn changes(map: &BTreeMap<u64, Option<usize>>) -> Vec<Change<Numbers>> {
    let mut changes: Vec<Change<Numbers>> = map
        .iter()
        .map(|(&number, &len)| (key(number), len.map(|len| Number { number, len })))
        .collect();
    changes.sort_by_key(|(key, _)| *key);
    changes
}

fn everything(memory: &Memory, root: Option<Ref>) -> Vec<Number> {
    root.map_or_else(Vec::new, |root| {
        page::<Numbers, _>(memory, root, 0, usize::MAX).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Goal: a changed tree is the tree of the changed set, node for node. Method: random batches of changes, each
    /// compared with a tree built from nothing; listings, look-ups, ranges and comparisons against the map.
    #[test]
    fn changes_give_the_tree_that_building_from_nothing_gives(
        batches in prop::collection::vec(
            prop::collection::btree_map(0..600u64, prop::option::weighted(0.7, 1..900usize), 1..200),
            1..6,
        ),
        low in 0..600u64,
        high in 0..600u64,
    ) {
        let mut memory = Memory::default();
        let (mut map, mut root) = (BTreeMap::new(), None);
        for batch in batches {
            let (before_map, before) = (map.clone(), root);
            for (&number, &len) in &batch {
                match len {
                    Some(len) => drop(map.insert(number, len)),
                    None => drop(map.remove(&number)),
                }
            }
            root = update::<Numbers, _>(&mut memory, root, 0, &changes(&batch)).unwrap();
            prop_assert_eq!(root, from_nothing(&mut memory, &map));
            prop_assert_eq!(everything(&memory, root), sorted(&map));
            let mut differences = BTreeMap::new();
            // In steps, each behind the last key of the one before.
            let mut after = None;
            loop {
                let mut room = 7;
                let mut last = None;
                let whole = compare::<Numbers, _>(&memory, before, root, 0, after.as_ref(), &mut |one, other| {
                    let number = one.as_ref().or(other.as_ref()).map(|item| item.number);
                    last = number.map(key);
                    differences.insert(number, (one.map(|one| one.len), other.map(|other| other.len)));
                    room -= 1;
                    Ok::<bool, Error>(room > 0)
                }).unwrap();
                if whole {
                    break;
                }
                after = last;
            }
            for number in before_map.keys().chain(map.keys()) {
                let pair = (before_map.get(number).copied(), map.get(number).copied());
                let found = differences.remove(&Some(*number));
                prop_assert!(found == (pair.0 != pair.1).then_some(pair) || found.is_none());
            }
            prop_assert!(differences.is_empty());
        }
        let Some(root) = root else { return Ok(()) };
        for number in 0..600 {
            let found = get::<Numbers, _>(&memory, root, 0, &key(number)).unwrap();
            prop_assert_eq!(found.map(|item| item.len), map.get(&number).copied());
        }
        let (low, high) = (key(low).min(key(high)), key(low).max(key(high)));
        let mut found = Vec::new();
        range::<Numbers, _>(&memory, root, 0, &low, &high, &mut |item| {
            found.push(item.clone());
            true
        }).unwrap();
        let inside: Vec<Number> = sorted(&map)
            .into_iter()
            .filter(|item| (low..=high).contains(&key(item.number)))
            .collect();
        prop_assert_eq!(found, inside);
        for skip in [0, 1, 17, 300] {
            let some = page::<Numbers, _>(&memory, root, skip, 40).unwrap();
            let expected: Vec<Number> = sorted(&map).into_iter().skip(skip as usize).take(40).collect();
            prop_assert_eq!(some, expected);
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_are_the_one_encoding_of_what_they_give(
        bytes in prop::collection::vec(prop_oneof![Just(0x82u8), Just(0), Just(1), Just(0x81), Just(0x58), Just(0x20), any::<u8>()], 0..120),
    ) {
        if let Ok(node) = Node::<Numbers>::decode(&bytes) {
            prop_assert_eq!(node.encode(), bytes);
        }
    }
}

#[test]
fn one_change_among_100_000_items_writes_one_path() {
    let mut memory = Memory::default();
    let map: BTreeMap<u64, usize> = (0..100_000).map(|number| (number, 100)).collect();
    let root = from_nothing(&mut memory, &map);
    let (count, before) = (root.unwrap().count, memory.puts);
    assert_eq!(count, 100_000);
    let one = BTreeMap::from([(50_001, Some(101))]);
    let changed = update::<Numbers, _>(&mut memory, root, 0, &changes(&one)).unwrap();
    assert_ne!(changed, root);
    assert!(
        memory.puts - before <= 6,
        "{} nodes written",
        memory.puts - before
    );
}

#[test]
fn no_change_writes_nothing() {
    let mut memory = Memory::default();
    let map: BTreeMap<u64, usize> = (0..1_000).map(|number| (number, 100)).collect();
    let root = from_nothing(&mut memory, &map);
    let before = memory.puts;
    let same = BTreeMap::from([(7, Some(100)), (2_000, None)]);
    let after = update::<Numbers, _>(&mut memory, root, 0, &changes(&same)).unwrap();
    assert_eq!((after, memory.puts), (root, before));
}

#[test]
fn a_node_that_does_not_hold_what_is_said_of_it_is_refused() {
    let mut memory = Memory::default();
    let map: BTreeMap<u64, usize> = (0..10).map(|number| (number, 100)).collect();
    let root = from_nothing(&mut memory, &map).unwrap();
    let lying = Ref { count: 11, ..root };
    assert!(page::<Numbers, _>(&memory, lying, 0, 100).is_err());
}
