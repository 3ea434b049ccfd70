"""Nobody pays for the SDK of a platform without an account there: wiring and settings import none of them."""

from __future__ import annotations

import subprocess
import sys

from tests.simulators.process import REPO_ROOT

PROGRAM = """
import sys
import bot.process.wiring
from channels.registry import PLATFORMS, config_class
for platform in PLATFORMS:
    config_class(platform)
sdks = {"telegram", "slack_bolt", "slack_sdk", "lark_oapi", "websockets"}
print(sorted({name for name in sys.modules if name.partition(".")[0] in sdks}))
"""


def test_the_gateway_is_wired_without_an_sdk() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=REPO_ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
