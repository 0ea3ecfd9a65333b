//! Prints the acts of a seed, with the numbers that reports of violations use.

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|argument| argument.parse::<u64>().ok());
    let (Some(Some(seed)), Some(Some(count))) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: acts SEED COUNT");
        return;
    };
    let acts = strongroom_simulator::plan::acts(seed, usize::try_from(count).unwrap_or(0));
    let history = strongroom_simulator::history::History::of(&acts);
    for (at, act) in acts.iter().enumerate() {
        println!("{} {act:?}", at + 1);
        for (slot, inode) in history.names(at + 1) {
            if history.names(at).get(slot) != Some(inode) {
                println!(
                    "    {} in {} is now {}",
                    String::from_utf8_lossy(&slot.1),
                    slot.0.0,
                    inode.0
                );
            }
        }
    }
}
