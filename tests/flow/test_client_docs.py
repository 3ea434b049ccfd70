"""The examples of docs/client.md do what they say, with the demo model."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
import yaml

from bot.settings.model import BUILT_IN
from harness.models.tour_texts import EN
from tests.flow.api_world import Api, serving
from tests.flow.sandboxed import require_bubblewrap
from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.flow.gateway import World

require_bubblewrap()

pytestmark = pytest.mark.asyncio(loop_scope="module")
RUNS = re.compile(r"<!-- runs in tests/flow/test_client_docs.py -->\n```python\n(.*?)```", re.DOTALL)
EXAMPLES = RUNS.findall((REPO_ROOT / "docs" / "client.md").read_text(encoding="utf-8"))
RULES: dict[str, Any] = dict(BUILT_IN["guardrails"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(public_world: World) -> AsyncIterator[Api]:
    async with serving(public_world, models=[{"name": "demo", "use": "demo"}], guardrails=RULES) as api:
        yield api


async def ran(example: str, folder: Path, **variables: str) -> str:
    """What an example prints."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", example),
        cwd=folder,
        env=child_environment() | {"PYTHONPATH": str(REPO_ROOT)} | variables,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return output.decode()


async def test_there_are_three_examples() -> None:
    assert ["EmbeddedClient" in example for example in EXAMPLES] == [False, False, True]


async def test_an_answer_is_printed(api: Api, tmp_path: Path) -> None:
    output = await ran(EXAMPLES[0], tmp_path, ANTLER_URL=api.url, ANTLER_TOKEN=await api.token())
    assert EN.steps[0] in output
    assert "You wrote: “Is that all?”" in output


async def test_a_stream_is_printed_and_its_approval_decided(api: Api, tmp_path: Path) -> None:
    output = await ran(EXAMPLES[1], tmp_path, ANTLER_URL=api.url, ANTLER_TOKEN=await api.token())
    assert EN.order_begin in output
    assert "It is an order." in output
    assert f"order.txt: {EN.order}" in output
    assert EN.order_done in output
    assert "The end of run " in output


@pytest.fixture
def nightly(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"data_dir": "data", "channels": {"console": {}}}))
    return tmp_path


def reports(folder: Path) -> list[str]:
    return [report.read_text(encoding="utf-8") for report in folder.glob("report-*.md")]


async def test_a_report_is_written(nightly: Path) -> None:
    output = await ran(EXAMPLES[2], nightly)
    assert "You wrote: “Write the report of " in output
    again = await ran(EXAMPLES[2], nightly)
    assert again == output
    assert reports(nightly) == [output.removesuffix("\n")]
