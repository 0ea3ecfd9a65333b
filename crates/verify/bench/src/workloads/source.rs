//! The parts that the workloads of source trees share.

use std::path::Path;
use std::process::Command;

use crate::Content;

/// `git` in `tree`, with nobody's settings.
pub(super) fn git(tree: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(tree)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree))
        .args(["-c", "safe.directory=*", "-c", "gc.auto=0"])
        .args(["-c", "user.name=bench", "-c", "user.email=bench@localhost"]);
    git
}

/// Lines of words, of which half repeat. As long as a file of a source tree: a few hundred bytes to some ten thousand, most of
/// them few.
pub(super) fn text(content: &mut Content) -> Vec<u8> {
    let doubled = content.random() % 6;
    let len = (300_usize << doubled) + (content.random() % (300 << doubled)) as usize;
    const WORDS: [&str; 8] = [
        "let", "return", "self", "match", "if", "for", "struct", "const",
    ];
    let mut text = Vec::with_capacity(len + 32);
    while text.len() < len {
        let random = content.random();
        let end = if random >> 61 == 0 { "\n" } else { " " };
        let word = WORDS[(random >> 32) as usize % WORDS.len()];
        text.extend_from_slice(format!("{word} {:x}{end}", random & 0xff_ffff).as_bytes());
    }
    text.truncate(len);
    text
}
