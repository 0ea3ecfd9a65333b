"""Follows the README as a new user. Runs its commands in order, in a copy that has only what they need, and then its Python blocks with the
package that the commands installed. Takes a folder to work in; the wheel is built in the current checkout."""

import pathlib
import re
import subprocess
import sys

top = pathlib.Path(__file__).parents[3]
place = pathlib.Path(sys.argv[1])
readme = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
(commands,) = re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
python = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)

# The environment lies in the folder, not in the checkout.
commands = commands.replace("venv/bin", str(place / "venv/bin")).replace("-m venv venv", f"-m venv {place / 'venv'}")
subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=top, check=True)
program = place / "readme.py"
program.write_text("\n".join(python))
work = place / "work"
work.mkdir()
subprocess.run([place / "venv/bin/python", "-W", "error", program], cwd=work, check=True)
print(f"README of the Python package: {len(commands.splitlines())} commands and {len(python)} blocks run")
