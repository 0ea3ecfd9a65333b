//! The command line of `unlock` and `lock`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::arguments::common::SecretArguments;

/// The longest session: what is forgotten for a month should be locked.
const SESSION_S_MAX: u64 = 31 * 86_400;

/// Arguments of `unlock`.
#[derive(Args, Debug)]
pub(crate) struct Unlock {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// How long to keep the vault open: a number with s, m, h or d, at most 31d
    #[arg(long = "for", value_name = "TIME", default_value = "1h", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Set by the program when it starts itself in the background
    #[arg(long, hide = true)]
    pub(crate) daemon: bool,
    /// The file to which the background process logs
    #[arg(long, hide = true)]
    pub(crate) log_file: Option<PathBuf>,
    /// How much the background process logs: the number of -v options
    #[arg(long, hide = true, default_value_t = 0)]
    pub(crate) log_verbosity: u8,
    #[command(flatten)]
    pub(crate) secret: SecretArguments,
}

/// Arguments of `lock`.
#[derive(Args, Debug)]
pub(crate) struct Lock {
    /// The vault folder
    #[arg(value_name = "VAULT")]
    pub(crate) vault: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A time: a number with its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number followed by s, m, h or d, as in 90m".to_owned();
    let unit_s = match text.as_bytes().last() {
        Some(b's') => 1,
        Some(b'm') => 60,
        Some(b'h') => 3_600,
        Some(b'd') => 86_400,
        _ => return Err(wrong()),
    };
    let count: u32 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    match u64::from(count) * unit_s {
        0 => Err(wrong()),
        seconds if seconds > SESSION_S_MAX => Err("at most 31d".to_owned()),
        seconds => Ok(Duration::from_secs(seconds)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_with_a_unit_and_has_a_bound() {
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3_600), ("31d", 2_678_400)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for wrong in ["", "0h", "1", "h", "32d", "-1h", "1.5h", "5000000000h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
