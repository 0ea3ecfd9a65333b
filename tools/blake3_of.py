"""BLAKE3 for tests that send many objects to a server: the package `blake3`, which is installed into .tools if it is missing."""

import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent / ".tools/blake3"


def install():
    if not TOOLS.exists():
        print("installing the package blake3 into .tools", flush=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-warn-conflicts", "--root-user-action=ignore", "--target", str(TOOLS), "blake3"]
        if subprocess.run(command).returncode != 0:
            raise SystemExit(f"blake3 cannot be installed; type: {' '.join(command)}")
    sys.path.insert(0, str(TOOLS))
    from blake3 import blake3

    return blake3


_blake3 = None


def hexdigest(body):
    global _blake3
    if _blake3 is None:
        _blake3 = install()
    return _blake3(body).hexdigest()
