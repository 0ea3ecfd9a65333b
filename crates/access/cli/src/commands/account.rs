//! The report of a copy: what was copied, and what was left out and why.
//!
//! Takes   counts of the copied nodes, and one note per part of a node that could not be kept
//! Gives   lines on standard error, or one JSON document on standard output
//! Never   holds more than `LEFT_OUT_MAX` notes: further ones are only counted

use std::fmt::Display;

use serde::Serialize;

use super::history::SHORT_ID;
use crate::terminal::failure::{Failures, Result, tell};
use crate::terminal::interrupt;
use crate::terminal::output::{Exact, Format, counted, print_json, show_bytes};
use crate::terminal::printable::show;

/// How many notes the JSON document has.
const LEFT_OUT_MAX: usize = 1000;

/// How many of them a person gets to read.
const SHOWN_MAX: usize = 20;

/// What was copied.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Account {
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) symlinks: u64,
    /// Pipes, sockets and devices.
    pub(crate) special: u64,
    /// Further names of files that were copied already.
    pub(crate) hard_links: u64,
    /// Files and others that were there already, as they are.
    pub(crate) unchanged: u64,
    /// What a pattern named; of a directory, nothing below it is counted.
    pub(crate) excluded: u64,
    /// What --delete removed.
    pub(crate) removed: u64,
    /// The snapshot that holds what was removed, if one was taken for that.
    pub(crate) snapshot: Option<String>,
    /// Devices that were not made, because --special was not given.
    pub(crate) withheld_devices: u64,
    /// Files whose bits or attributes would give rights, and were made without these, because --special was not given.
    pub(crate) withheld_rights: u64,
    /// Files and others whose times no vault can store, and that got the nearest ones.
    pub(crate) nearest_times: u64,
    /// Of content; holes and further names do not count.
    pub(crate) bytes: u64,
    /// Files, directories and others that failed; each was reported on standard error.
    failed: u64,
    /// How many notes there were, also beyond those below.
    left_out_count: u64,
    left_out: Vec<LeftOut>,
}

/// Something that was copied without all that belongs to it.
#[derive(Debug, Serialize)]
struct LeftOut {
    path: String,
    /// All of it in hex, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(skip)]
    shown: String,
    /// A few words, or the name of an attribute.
    what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    what_bytes: Option<String>,
    #[serde(skip)]
    shown_what: String,
    why: String,
}

impl Account {
    /// How many files and others were made.
    pub(crate) const fn made(&self) -> u64 {
        self.files + self.directories + self.symlinks + self.special + self.hard_links
    }

    /// `what` of `path` could not be kept.
    pub(crate) fn left_out(
        &mut self,
        path: impl AsRef<[u8]>,
        what: impl AsRef<[u8]>,
        why: impl Display,
    ) {
        self.left_out_count += 1;
        if self.left_out.len() < LEFT_OUT_MAX {
            let Exact { text, bytes } = Exact::new(path.as_ref());
            let exact = Exact::new(what.as_ref());
            self.left_out.push(LeftOut {
                path: text,
                bytes,
                shown: show(path),
                what: exact.text,
                what_bytes: exact.bytes,
                shown_what: show(what),
                why: why.to_string(),
            });
        }
    }

    /// What was done before something failed, or the copy was interrupted.
    fn summary(&self, how: &str) -> String {
        let Self {
            files, unchanged, ..
        } = self;
        let size = show_bytes(self.bytes);
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        format!(
            "strongroom: {how}: {} copied ({size}), {unchanged} unchanged{failed}",
            counted(*files, "file")
        )
    }

    /// Shows the account at the end of a copy. A person hears only of what is missing, and of what was removed.
    pub(crate) fn show(mut self, failures: &Failures, format: Format) -> Result<()> {
        self.failed = failures.count();
        if interrupt::came() {
            // The interruption itself is no file that failed.
            self.failed = self.failed.saturating_sub(1);
        }
        if format == Format::Json {
            return print_json(&self);
        }
        for LeftOut {
            shown,
            shown_what,
            why,
            ..
        } in self.left_out.iter().take(SHOWN_MAX)
        {
            tell(&format!(
                "strongroom: {shown}: not kept: {shown_what} ({why})"
            ));
        }
        for (count, what) in [
            (self.withheld_devices, "devices left out"),
            (
                self.withheld_rights,
                "files made without set-user-id bits, set-group-id bits or capabilities",
            ),
        ] {
            if count > 0 {
                tell(&format!(
                    "strongroom: {what}: {count}; --special keeps them"
                ));
            }
        }
        if self.nearest_times > 0 {
            let count = self.nearest_times;
            tell(&format!(
                "strongroom: files and directories with a time that a vault cannot store: {count}; the nearest possible time was stored"
            ));
        }
        let more = self.left_out_count.saturating_sub(SHOWN_MAX as u64);
        if more > 0 {
            tell(&format!(
                "strongroom: {more} more lines like these are not shown; --json lists up to {LEFT_OUT_MAX}"
            ));
        }
        if let Some(snapshot) = &self.snapshot {
            let (removed, short) = (self.removed, &snapshot[..SHORT_ID]);
            tell(&format!(
                "strongroom: removed {removed} files and directories; the snapshot {short} still has them"
            ));
        }
        if failures.count() > 0 {
            let summary = match interrupt::came() || failures.stop() {
                true => self.summary("stopped") + "; run the same command again to continue",
                false => self.summary("the copy is incomplete"),
            };
            tell(&summary);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the name of an attribute that was not kept is exact in JSON, and escaped for a terminal. Failed before: it was escaped in both.
    /// SECURITY.md, claim 15.
    #[test]
    fn the_name_of_an_attribute_is_exact_in_json() {
        let mut account = Account::default();
        account.left_out("file", "user.a\\b\u{a0}", "no right");
        account.left_out("file", b"user.\xff", "no right");
        let json = serde_json::to_value(&account).unwrap();
        assert_eq!(json["left_out"][0]["what"], "user.a\\b\u{a0}");
        assert_eq!(json["left_out"][1]["what_bytes"], "757365722eff");
        assert_eq!(account.left_out[0].shown_what, r"user.a\\b\u{a0}");
    }

    #[test]
    fn notes_beyond_the_bound_are_counted_and_not_kept() {
        let mut account = Account::default();
        for number in 0..LEFT_OUT_MAX + 5 {
            account.left_out(number.to_string(), "owner", "no right");
        }
        assert_eq!(account.left_out.len(), LEFT_OUT_MAX);
        assert_eq!(account.left_out_count, LEFT_OUT_MAX as u64 + 5);
    }
}
