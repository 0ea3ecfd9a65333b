//! `tune`: measures which provider is the fastest on this machine, and stores the choice.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use strongroom::providers::benchmark::Row;
use strongroom::providers::figure::Figure;
use strongroom::providers::measured::Measured;
use strongroom::providers::sharing::NEVER;
use strongroom::providers::{Algorithm, Preferences, Provider, SizeClass, State};
use strongroom::{providers, tuning};

use super::tune_chart;
use crate::arguments::tune::Tune;
use crate::terminal::failure::{About, Failure, Result};
use crate::terminal::output::{print_json, show_bytes, stdout};
use crate::terminal::printable::show_path;

/// Measures the providers and remembers the choice; or saves or forgets wishes.
pub(crate) fn tune(arguments: &Tune) -> Result<()> {
    if arguments.reset {
        return reset(arguments);
    }
    if !arguments.prefer.is_empty() {
        return prefer(arguments);
    }
    // Wishes are shown beside the figures, so they must be in force; what was measured before does not count here.
    let preferred = tuning::preferred()?;
    for (algorithm, provider) in preferred.iter() {
        providers::set_preferred(algorithm, provider.name()).map_err(strongroom::Error::from)?;
    }
    let measured = measure()?;
    let remembered = tuning::remember(&measured.choice);
    let table = Table::of(&measured, &preferred);
    if let Some(file) = &arguments.chart {
        let svg = tune_chart::draw(&measured, &table.chosen).map_err(|error| {
            Failure::new(
                crate::terminal::exit_code::ExitCode::Other,
                error.to_string(),
            )
        })?;
        std::fs::write(file, svg).about(show_path(file))?;
    }
    if arguments.json {
        print_json(&table.json)?;
    } else {
        table.text(&measured)?;
    }
    remembered.about("the choice could not be saved")
}

fn reset(arguments: &Tune) -> Result<()> {
    let forgotten = tuning::reset()?;
    if arguments.json {
        return print_json(&BTreeMap::from([("forgotten", forgotten)]));
    }
    let mut out = stdout();
    writeln!(
        out,
        "{}",
        if forgotten {
            "forgotten; the next opening of a vault measures again"
        } else {
            "there was nothing to forget"
        }
    )?;
    Ok(out.flush()?)
}

fn prefer(arguments: &Tune) -> Result<()> {
    for wished in &arguments.prefer {
        tuning::prefer(wished)?;
    }
    let preferred = tuning::preferred()?;
    if arguments.json {
        return print_json(&BTreeMap::from([("preferred", names(&preferred))]));
    }
    let mut out = stdout();
    for (algorithm, provider) in preferred.iter() {
        writeln!(
            out,
            "{algorithm} is computed by {} from now on",
            provider.name()
        )?;
    }
    if std::env::var_os(providers::registry::ENVIRONMENT).is_some() {
        writeln!(
            out,
            "{} is set and overrides this",
            providers::registry::ENVIRONMENT
        )?;
    }
    Ok(out.flush()?)
}

fn names(preferred: &Preferences) -> BTreeMap<&'static str, &'static str> {
    let names = preferred.iter();
    names
        .map(|(algorithm, provider)| (algorithm.name(), provider.name()))
        .collect()
}

/// Measures, and tells how far it is if somebody is looking.
fn measure() -> Result<Measured> {
    let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::hidden());
    if std::io::stderr().is_terminal() {
        if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent} %  {elapsed}") {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    let measured = tuning::measure(&mut |part| bar.set_position((part * 1000.0) as u64));
    bar.finish_and_clear();
    Ok(measured?)
}

#[derive(Serialize)]
struct TuneJson {
    machine: tuning::Machine,
    seconds: f64,
    rows: Vec<RowJson>,
    /// Speeds of one large call, by count of threads that seal.
    scaling: Vec<ThreadsJson>,
    /// Calls of several sizes, sealed inline and shared out.
    sharing: Vec<SharingJson>,
    threads: Option<usize>,
    /// `null`: never shared out.
    inline_below_bytes: Option<usize>,
    preferred: BTreeMap<&'static str, &'static str>,
    unusable: Vec<UnusableJson>,
}

#[derive(Serialize)]
struct RowJson {
    algorithm: &'static str,
    work: &'static str,
    bytes: usize,
    threads: usize,
    provider: &'static str,
    unit: &'static str,
    #[serde(flatten)]
    figure: FigureJson,
    chosen: bool,
    reason: Option<String>,
}

#[derive(Serialize)]
struct FigureJson {
    median: f64,
    low: f64,
    high: f64,
    /// How many.
    rounds: usize,
}

#[derive(Serialize)]
struct ThreadsJson {
    threads: usize,
    unit: &'static str,
    #[serde(flatten)]
    figure: FigureJson,
}

#[derive(Serialize)]
struct SharingJson {
    bytes: usize,
    inline: FigureJson,
    shared: Vec<ThreadsJson>,
}

#[derive(Serialize)]
struct UnusableJson {
    algorithm: &'static str,
    provider: &'static str,
    why: String,
}

/// What is in use, for each row that has entries: its place among them.
pub(super) type Places = Vec<Option<usize>>;

/// What is shown.
struct Table {
    json: TuneJson,
    chosen: Places,
}

impl Table {
    fn of(measured: &Measured, preferred: &Preferences) -> Self {
        let chosen: Places = measured.rows.iter().map(in_use).collect();
        let rows = measured.rows.iter().zip(&chosen);
        let rows = rows.flat_map(|(row, chosen)| row_json(row, *chosen, measured));
        let sharing = measured.points.iter().map(|point| SharingJson {
            bytes: point.bytes,
            inline: figure_json(&point.inline),
            shared: point.pooled.iter().map(threads_json).collect(),
        });
        let json = TuneJson {
            machine: tuning::Machine::here(),
            seconds: measured.took.as_secs_f64(),
            rows: rows.collect(),
            scaling: measured.scaling.iter().map(threads_json).collect(),
            sharing: sharing.collect(),
            threads: measured.choice.threads,
            inline_below_bytes: Some(measured.choice.inline_below_bytes)
                .filter(|bytes| *bytes != NEVER),
            preferred: names(preferred),
            unusable: unusable(),
        };
        Self { json, chosen }
    }

    fn text(&self, measured: &Measured) -> Result<()> {
        let mut out = stdout();
        for group in measured.rows.chunk_by(same_work) {
            if group.iter().any(|row| !row.entries.is_empty()) {
                group_text(&mut out, group, &self.json.rows)?;
            }
        }
        let json = &self.json;
        writeln!(out, "* in use; fastest: the greatest median")?;
        for entry in &json.unusable {
            writeln!(
                out,
                "{} has no {} here: {}",
                entry.provider, entry.algorithm, entry.why
            )?;
        }
        match (json.threads, json.inline_below_bytes) {
            (Some(1), _) => writeln!(out, "sealing: on one thread; more were not faster")?,
            (Some(threads), Some(bytes)) => writeln!(
                out,
                "sealing: calls of {} or more use {threads} threads; smaller calls use one",
                show_bytes(bytes as u64)
            )?,
            (Some(_), None) => writeln!(
                out,
                "sealing: on one thread; more threads were not faster at any size"
            )?,
            (None, _) => writeln!(
                out,
                "sealing: on a thread per core; no time was left to measure fewer threads"
            )?,
        }
        writeln!(out, "measured in {:.0} s and saved", json.seconds)?;
        Ok(out.flush()?)
    }
}

fn same_work(left: &Row, right: &Row) -> bool {
    (left.algorithm, left.work) == (right.algorithm, right.work)
}

/// The place of the provider that does the work of `row` now.
fn in_use(row: &Row) -> Option<usize> {
    let class = SizeClass::of(row.bytes);
    let by = providers::preferred(row.algorithm, row.work.decided_by(), class).ok()?;
    row.position(by)
}

fn row_json(row: &Row, chosen: Option<usize>, measured: &Measured) -> Vec<RowJson> {
    let entries = row.entries.iter().enumerate();
    entries
        .map(|(index, entry)| {
            let chosen = chosen == Some(index);
            RowJson {
                algorithm: row.algorithm.name(),
                work: row.work.name(),
                bytes: row.bytes,
                threads: row.threads,
                provider: entry.provider.name(),
                unit: row.work.unit(),
                figure: figure_json(&entry.figure),
                chosen,
                reason: chosen.then(|| reason(row, index, measured)),
            }
        })
        .collect()
}

/// Why the entry at `index` is in use.
fn reason(row: &Row, index: usize, measured: &Measured) -> String {
    let found = row.reason(index);
    let class = SizeClass::of(row.bytes);
    let work = row.work.decided_by();
    let fastest = measured.choice.get(row.algorithm, work, class);
    let wished = fastest.is_some_and(|by| by.name() != row.entries[index].provider.name());
    match wished {
        true => format!("preferred by you; {found}"),
        false => found.to_string(),
    }
}

fn figure_json(figure: &Figure) -> FigureJson {
    FigureJson {
        median: figure.median(),
        low: figure.low(),
        high: figure.high(),
        rounds: figure.rounds().len(),
    }
}

fn threads_json((threads, figure): &(usize, Figure)) -> ThreadsJson {
    ThreadsJson {
        threads: *threads,
        unit: "MiB/s",
        figure: figure_json(figure),
    }
}

/// Providers of this build that cannot compute here, with the reason.
fn unusable() -> Vec<UnusableJson> {
    let of = |algorithm: &Algorithm| {
        let algorithm = *algorithm;
        let offers = providers::providers_of(algorithm).into_iter();
        offers.filter_map(move |offer| {
            let why = match offer.state {
                State::Ready => return None,
                State::Missing(what) => format!("it needs {what}"),
                State::Failed => "it failed its self-test".to_owned(),
            };
            Some(UnusableJson {
                algorithm: algorithm.name(),
                provider: Provider::name(offer.provider),
                why,
            })
        })
    };
    Algorithm::ALL.iter().flat_map(of).collect()
}

/// The rows of one work, a line for each size and provider, a column for each count of threads.
fn group_text(out: &mut impl Write, group: &[Row], all: &[RowJson]) -> Result<()> {
    let first = &group[0];
    let mine: Vec<&RowJson> = all
        .iter()
        .filter(|row| (row.algorithm, row.work) == (first.algorithm.name(), first.work.name()))
        .collect();
    let mut threads: Vec<usize> = group.iter().map(|row| row.threads).collect();
    threads.sort_unstable();
    threads.dedup();
    let heads = threads.iter().map(|count| match count {
        1 => format!("{:>27}", "1 thread"),
        more => format!("{:>27}", format!("{more} threads")),
    });
    let title = format!(
        "{}, {}, {}",
        first.algorithm,
        first.work.name(),
        first.work.unit()
    );
    writeln!(out, "{title:<38}{}", heads.collect::<String>())?;
    let mut size = None;
    for line in mine.iter().filter(|row| row.threads == threads[0]) {
        let label = if size == Some(line.bytes) {
            String::new()
        } else {
            show_bytes(line.bytes as u64).replace(".0 ", " ")
        };
        size = Some(line.bytes);
        let figures = threads.iter().map(|count| {
            let found = mine.iter().find(|row| {
                (row.bytes, row.threads, row.provider) == (line.bytes, *count, line.provider)
            });
            found.map_or_else(String::new, |row| figure_text(&row.figure))
        });
        let mark = if line.chosen { '*' } else { ' ' };
        let figures: String = figures.map(|text| format!("{text:>27}")).collect();
        let reason = line.reason.as_deref().unwrap_or("");
        let text = format!(
            "{label:>10} {mark} {:<25}{figures}  {reason}",
            line.provider
        );
        writeln!(out, "{}", text.trim_end())?;
    }
    writeln!(out)?;
    Ok(())
}

fn figure_text(figure: &FigureJson) -> String {
    format!(
        "{:.0} ({:.0} to {:.0})",
        figure.median, figure.low, figure.high
    )
}
