#!/usr/bin/env bash
# Regenerates spec/vectors from the independent Python implementation. `git diff` shows differences from the committed
# files: there may be none, unless the specification changed.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=.tools/vectors
[ -d "$venv" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet -r tools/vectors/requirements.txt
for generator in tools/vectors/generate.py tools/vectors/algorithms.py tools/vectors/keys.py tools/vectors/take_over.py tools/vectors/inbox.py spec/vectors/segment/make.py spec/vectors/publication/make.py spec/vectors/erasures/make.py spec/vectors/shared-rule/make.py; do
    "$venv/bin/python" "$generator"
done
git diff --stat -- spec/vectors
