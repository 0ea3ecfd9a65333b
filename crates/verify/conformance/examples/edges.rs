//! temp
use strongroom_conformance::modules::Modules;
fn main() {
    let m = Modules::read(std::path::Path::new(&std::env::args().nth(1).unwrap())).unwrap();
    for (a, b) in m.file_edges() {
        println!(
            "E {} {}",
            if a.is_empty() {
                "lib".into()
            } else {
                a.join("/")
            },
            if b.is_empty() {
                "lib".into()
            } else {
                b.join("/")
            }
        );
    }
    for c in m.circles() {
        println!("C {:?} {:?} {:?}", c.is_allowed(), c.folder, c.parts);
    }
    println!("L {}", m.lines());
    for (f, to) in m.folder_edges("filesystem") {
        println!("F {f} -> {to:?}");
    }
}
