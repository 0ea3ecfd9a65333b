//! Describes the machine and the day of a run, in words that do not identify the machine.

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// A machine as far as figures depend on it.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// As in "2 virtual cores, AMD EPYC Zen 3, Linux 6.18, ext4 on a virtual disk".
    pub kind: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory in GiB, rounded.
    pub memory_gib: u64,
    /// Instructions that ciphers are built on, as far as the processor has them.
    pub instructions: Vec<String>,
    /// `major.minor` of the kernel.
    pub kernel: String,
}

impl Machine {
    /// This one, with the disk that holds `directory`.
    #[must_use]
    pub fn here(directory: &Path) -> Self {
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = processor
                .lines()
                .find(|line| line.split(':').next().is_some_and(|at| at.trim() == name));
            line.and_then(|line| line.split_once(':'))
                .map_or("", |(_, value)| value.trim())
        };
        let flags: Vec<&str> = field("flags").split(' ').collect();
        let number = |name| field(name).parse().unwrap_or(0);
        let named = generation(field("vendor_id"), number("cpu family"), number("model"));
        let model = field("model name");
        let model = named.map_or_else(
            || model.to_owned(),
            |named| {
                let brand = if model.contains("EPYC") {
                    "AMD EPYC"
                } else {
                    "AMD"
                };
                format!("{brand} {named}")
            },
        );
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let virtual_cores = if flags.contains(&"hypervisor") {
            "virtual cores"
        } else {
            "cores"
        };
        let release = rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned();
        let kernel = release.split('.').take(2).collect::<Vec<_>>().join(".");
        let disk = disk(directory);
        let wanted = [
            "aes",
            "vaes",
            "pclmulqdq",
            "vpclmulqdq",
            "avx2",
            "avx512f",
            "sha_ni",
        ];
        Self {
            kind: format!("{cores} {virtual_cores}, {model}, Linux {kernel}, {disk}"),
            cores,
            memory_gib: memory_gib(),
            instructions: wanted
                .into_iter()
                .filter(|flag| flags.contains(flag))
                .map(str::to_owned)
                .collect(),
            kernel,
        }
    }

    /// Processor and cores as a part of a folder's name.
    #[must_use]
    pub fn slug(&self) -> String {
        let words = self
            .kind
            .split(", ")
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
            .to_lowercase();
        let letters = words.chars().map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter
            } else {
                '-'
            }
        });
        let slug: String = letters.collect();
        slug.split('-')
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("-")
    }
}

/// The generation of a processor whose name does not tell it.
fn generation(vendor: &str, family: u32, model: u32) -> Option<&'static str> {
    match (vendor, family, model) {
        ("AuthenticAMD", 23, 0..0x30) => Some("Zen"),
        ("AuthenticAMD", 23, _) => Some("Zen 2"),
        ("AuthenticAMD", 25, 0x10..0x20 | 0x60..0x80 | 0xa0..0xb0) => Some("Zen 4"),
        ("AuthenticAMD", 25, _) => Some("Zen 3"),
        ("AuthenticAMD", 26, _) => Some("Zen 5"),
        _ => None,
    }
}

fn memory_gib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = text.lines().find_map(|line| {
        line.strip_prefix("MemTotal:")?
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    });
    kib.map_or(0, |kib| (kib + (1 << 19)) >> 20)
}

/// The file system that holds `directory`, and what it stands on.
fn disk(directory: &Path) -> String {
    let found = rustix::fs::statfs(directory).map_or(0, |found| found.f_type as u64);
    let filesystem = match found {
        0xef53 => "ext4",
        0x9123_683e => "btrfs",
        0x5846_5342 => "xfs",
        0x2fc1_2fc1 => "zfs",
        0x0102_1994 => return "tmpfs".to_owned(),
        0x6573_5546 => return "a FUSE mount".to_owned(),
        _ => "a file system",
    };
    let device = fs::metadata(directory).map_or(0, |found| found.st_dev());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let name = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).unwrap_or_default();
    let name = name
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let kind = match name.as_str() {
        name if name.starts_with("vd") || name.starts_with("xvd") => "a virtual disk",
        name if name.starts_with("nvme") => "an NVMe disk",
        name if name.starts_with("loop") => "a loop device",
        _ => "a disk",
    };
    format!("{filesystem} on {kind}")
}

/// Whether this process is root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A number that differs from run to run.
pub(crate) fn seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()).rotate_left(48)
}

/// The day in UTC, `YYYY-MM-DD`.
#[must_use]
pub fn today() -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (year, month, day) = date(now.as_secs() / 86_400);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Year, month and day of the day that is `days` after 1970-01-01.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 1;
    for len in lengths {
        if days < len {
            break;
        }
        days -= len;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_453, (2025, 12, 31)),
            (20_454, (2026, 1, 1)),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn a_machine_has_a_kind_and_a_slug() {
        let machine = Machine::here(Path::new("/"));
        assert!(
            machine.kind.contains(&format!("Linux {}", machine.kernel)),
            "{machine:?}"
        );
        assert!(machine.slug().starts_with(&machine.cores.to_string()));
        assert!(machine.memory_gib > 0);
    }
}
