//! Asks the system which signals this process ignores.

/// Whether this process ignores the signal of this number; where the system does not say, it does not.
#[must_use]
pub fn ignores(signal: i32) -> bool {
    let status = std::fs::read("/proc/self/status").unwrap_or_default();
    // The name of the program is in it, whatever that is.
    let status = String::from_utf8_lossy(&status);
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (signal - 1)) & 1 == 1)
}
