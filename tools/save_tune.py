#!/usr/bin/env python3
"""Saves one run of `strongroom tune` and of the sealing bench in docs/performance, as tables and a chart.

    tools/save_tune.py FOLDER        FOLDER: docs/performance/<date>-<machine>-providers

Needs the release binary (`make build`) and an idle machine; takes a minute and a half.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/strongroom"
SIZES = {256: "256 B", 4096: "4 KiB", 65536: "64 KiB", 1 << 20: "1 MiB", 8 << 20: "8 MiB"}


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def table(rows):
    """The table of `strongroom tune`, from the same figures as the JSON and the chart."""
    lines, last = [], None
    by_key = {}
    for row in rows:
        by_key.setdefault((row["algorithm"], row["work"], row["unit"]), {}).setdefault((row["bytes"], row["provider"]), []).append(row)
    for (algorithm, work, unit), figures in by_key.items():
        lines += ["", f"{algorithm}, {work}, {unit}"]
        for (size, provider), threads in figures.items():
            speeds = "".join(f"{figure['median']:>10.0f} ({figure['low']:.0f} to {figure['high']:.0f})".ljust(30) for figure in threads)
            chosen = threads[0]["chosen"]
            label = SIZES.get(size, f"{size} B") if (algorithm, work, size) != last else ""
            last = (algorithm, work, size)
            reason = threads[0].get("reason") or "" if chosen else ""
            lines.append(f"{label:>10} {'*' if chosen else ' '} {provider:<10}{speeds}{reason}".rstrip())
    return "\n".join(lines[1:])


def sharing(rows):
    """Microseconds of a call over its size. The figures are MiB/s."""
    microseconds = lambda size, figure: f"{size / 1048576 / figure['median'] * 1e6:.1f}"
    lines = ["| size | calling thread | 1 worker thread | 2 worker threads |", "|---:|---:|---:|---:|"]
    for row in rows:
        cells = [microseconds(row["bytes"], row["inline"])] + [microseconds(row["bytes"], figure) for figure in row["shared"][:2]]
        lines.append(f"| {row['bytes'] // 1024} KiB | {' | '.join(cells)} |")
    return "\n".join(lines)


def behind(rows):
    """Rows with several providers; in how many the chosen one has the greatest median, and is within the spread of it."""
    groups = {}
    for row in rows:
        groups.setdefault((row["algorithm"], row["work"], row["bytes"], row["threads"]), []).append(row)
    groups = [group for group in groups.values() if len(group) > 1]
    fastest = tied = 0
    for group in groups:
        best = max(group, key=lambda row: row["median"])
        chosen = next(row for row in group if row["chosen"])
        fastest += chosen is best
        tied += chosen is not best and chosen["high"] >= best["low"]
    return len(groups), fastest, tied


def main():
    folder = Path(sys.argv[1]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    figures = json.loads(output(BINARY, "tune", "--json", "--chart", folder / "providers.svg"))
    benched = output("cargo", "bench", "--locked", "--quiet", "-p", "strongroom-crypto", "--features", "every-provider", "--bench", "seal").strip()
    (folder / "figures.json").write_text(json.dumps(figures, indent=1) + "\n")
    (folder / "seal.txt").write_text(benched + "\n")
    write(folder, figures, benched)


def write(folder, figures, benched):
    rows, fastest, tied = behind(figures["rows"])
    (folder / "README.md").write_text(f"""# Crypto providers, {time.strftime("%Y-%m-%d")}

`strongroom tune --chart providers.svg --json`, {figures["seconds"]:.0f} s, and `cargo bench -p strongroom-crypto --features every-provider --bench seal`, both of the release build, one after the other on
a quiet machine. Written by `tools/save_tune.py`. Every figure: `figures.json`. What is measured and why it is chosen: [ADR 10](../../adr/0010-providers-measured.md).

![bars for each provider and size, scaling over threads, time of a call over its size](providers.svg)

## The choice against fixed providers

`seal.txt`: the choice of a first use and each provider fixed, sealing blocks of 64 KiB in turns.

```text
{benched}
```

## Inline or shared out

Time of one `seal_all` in µs. The choice: on {figures["threads"]} threads, from {figures["inline_below_bytes"]:,} bytes in one call on, where the lines of the first and the last column meet.

{sharing(figures["sharing"])}

## Every provider

`*` is in use. Beside the medians the middle half of the rounds. Of the {rows} rows that compare providers the one in use has the greatest median in {fastest}, and in {tied} it is
within the spread of the greatest.

```text
{table(figures["rows"])}
```
""")
    print(f"{folder}: {rows} rows, fastest in {fastest}, within the spread in {tied}")


main()
