"""Runs an external agent and the simulated model together in the agent's sandbox, from which nothing else is reachable.

`python beside_model.py SCRIPT COMMAND...`: SCRIPT is a file for the simulator's `/control/scripts`. Agents find the
model by the variables of Anthropic's and Google's programs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path


def main() -> int:
    script, *command = sys.argv[1:]
    program = [sys.executable, "-m", "tests.simulators.model"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as model:
        assert model.stdout is not None
        url = f"http://127.0.0.1:{json.loads(model.stdout.readline())['port']}"
        order = urllib.request.Request(f"{url}/control/scripts", Path(script).read_bytes())
        order.add_header("Content-Type", "application/json")
        urllib.request.urlopen(order).close()
        found = {"ANTHROPIC_BASE_URL": f"{url}/anthropic", "GOOGLE_GEMINI_BASE_URL": f"{url}/gemini"}
        code = subprocess.run(command, env=os.environ | found, check=False).returncode
        model.kill()
    return code


sys.exit(main())
