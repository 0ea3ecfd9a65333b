//! The modules of every crate use only the modules that ARCHITECTURE.md lists, and no crate is larger than
//! CONTRIBUTING.md allows.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as the tests do")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use strongroom_conformance::documents::{Edges, block, budget_in};
use strongroom_conformance::modules::{Modules, differences};

/// The checkout.
fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .unwrap()
        .to_path_buf()
}

fn document(name: &str) -> String {
    std::fs::read_to_string(top().join(name)).unwrap()
}

/// Every crate by the name of its folder, with its zone.
fn crates() -> BTreeMap<String, (String, Modules)> {
    let folders = |path: PathBuf| {
        let entries = std::fs::read_dir(path).unwrap();
        entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
    };
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let mut found = BTreeMap::new();
    let zones = folders(top().join("crates")).chain([top().join("bindings")]);
    for zone in zones {
        for path in folders(zone.clone()) {
            let modules = Modules::read(&path.join("src")).unwrap();
            found.insert(name(&path), (name(&zone), modules));
        }
    }
    assert!(found.len() > 10, "only {} crates found", found.len());
    found
}

#[test]
fn folders_and_files_use_one_another_as_architecture_says() {
    let mut edges = Edges::new();
    let mut circles = Vec::new();
    for (name, (_, modules)) in crates() {
        if modules.folders().len() > 1 {
            edges.extend(modules.folder_edges(&name));
        }
        let in_the_way = modules
            .circles()
            .into_iter()
            .filter(|circle| !circle.is_allowed());
        circles.extend(in_the_way.map(|circle| {
            let folder = [std::slice::from_ref(&name), circle.folder.as_slice()].concat();
            (folder.join("/"), circle)
        }));
    }
    let text = document("ARCHITECTURE.md");
    let block = block(&text, "modules").expect("ARCHITECTURE.md has a block of modules");
    assert_eq!(differences(block, &edges, &circles), [""; 0]);
}

/// Goal: the product does not grow unnoticed. Method: lines of `src` without what only tests compile; the table is the budget.
#[test]
fn no_crate_is_larger_than_its_budget() {
    let text = document("CONTRIBUTING.md");
    let budget = budget_in(&text).expect("CONTRIBUTING.md has a table of lines");
    let product: BTreeMap<_, _> = crates()
        .into_iter()
        .filter(|(_, (zone, _))| zone != "verify")
        .map(|(name, (_, modules))| (name, modules.lines()))
        .collect();
    assert!(
        budget.keys().eq(product.keys()),
        "{budget:?} is of other crates"
    );
    for (name, lines) in &product {
        println!("{name:<12} {lines:>6} of {:>6}", budget[name]);
    }
    println!(
        "{:<12} {:>6} of {:>6}",
        "all",
        product.values().sum::<usize>(),
        budget.values().sum::<usize>()
    );
    let above: Vec<_> = product
        .iter()
        .filter(|(name, lines)| budget[*name] < **lines)
        .collect();
    assert!(
        above.is_empty(),
        "larger than CONTRIBUTING.md says, make them smaller: {above:?}"
    );
}
