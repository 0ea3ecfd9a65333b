//! The current and the peak memory of this process.

use std::fs;

/// Bytes in memory now.
pub(crate) fn resident() -> std::io::Result<f64> {
    of("VmRSS:")
}

/// The most since the process began, or since `forget_peak`.
pub(crate) fn peak() -> std::io::Result<f64> {
    of("VmHWM:")
}

/// Lets `peak` begin again.
pub(crate) fn forget_peak() -> std::io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

fn of(name: &str) -> std::io::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0)
        .ok_or_else(|| std::io::Error::other(format!("/proc/self/status has no {name}")))
}
