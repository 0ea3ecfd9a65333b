#!/usr/bin/env python3
"""Collects changes/ into CHANGELOG.md as one release, and removes what it collected.

    tools/changelog.py VERSION [DATE]      as `make changelog VERSION=0.2.0` calls it; DATE is today by default

A file in changes/ begins with its group: "Added:", "Changed:" or "Mended:"; without one it is in "Changed". The highest number comes
first. STRONGROOM_TOP is the folder with changes/ and CHANGELOG.md, by default the checkout.
"""

import datetime
import os
import re
import sys
from pathlib import Path

GROUPS = ["Added", "Changed", "Mended"]


def main():
    if len(sys.argv) < 2 or not re.fullmatch(r"\d+\.\d+\.\d+", sys.argv[1]):
        sys.exit("which release? make changelog VERSION=0.2.0")
    version = sys.argv[1]
    date = sys.argv[2] if len(sys.argv) > 2 else datetime.date.today().isoformat()
    top = Path(os.environ.get("STRONGROOM_TOP", Path(__file__).parents[1]))
    changelog = top / "CHANGELOG.md"
    text = changelog.read_text()
    if f"\n## {version}," in text:
        sys.exit(f"CHANGELOG.md has release {version} already: name the next one")
    files = sorted((top / "changes").glob("[0-9]*.md"), reverse=True)
    if not files:
        sys.exit("changes/ has nothing that is new")
    entries = {group: [] for group in GROUPS}
    for file in files:
        words = " ".join(file.read_text().split())
        group, _, rest = words.partition(": ")
        if group not in GROUPS:
            group, rest = "Changed", words
        entries[group].append(f"- {rest}\n")
    release = f"## {version}, {date}\n"
    for group in GROUPS:
        if entries[group]:
            release += f"\n### {group}\n\n" + "".join(entries[group])
    head, mark, earlier = text.partition("\n## ")
    new = changelog.with_suffix(".new")
    new.write_text(f"{head}\n{release}{mark}{earlier}")
    new.replace(changelog)
    for file in files:
        file.unlink()
    print(f"{len(files)} changes are in CHANGELOG.md as {version}: read them, and make many small ones one")


if __name__ == "__main__":
    main()
