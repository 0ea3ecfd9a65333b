//! The arguments of `tune`.

use std::path::PathBuf;

use clap::Args;
use strongroom::providers::Preferences;

/// Arguments of `tune`.
#[derive(Args, Debug)]
pub(crate) struct Tune {
    /// Draw the figures as a chart into FILE
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) chart: Option<PathBuf>,
    /// Measure nothing; use PROVIDER for ALGORITHM from now on. May be given more than once
    #[arg(
        long,
        value_name = "ALGORITHM=PROVIDER",
        conflicts_with = "chart",
        value_parser = parse_preferences
    )]
    pub(crate) prefer: Vec<Preferences>,
    /// Measure nothing; forget earlier measurements and preferences
    #[arg(long, conflicts_with_all = ["chart", "prefer"])]
    pub(crate) reset: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_preferences(text: &str) -> Result<Preferences, String> {
    match text.parse::<Preferences>() {
        Ok(preferences) if preferences.iter().next().is_none() => {
            Err("name an algorithm and its provider, as in AES-256-GCM=ring".to_owned())
        }
        Ok(preferences) => Ok(preferences),
        Err(error) => Err(error.to_string()),
    }
}
