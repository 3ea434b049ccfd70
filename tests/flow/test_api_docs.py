"""The examples of docs/api.md do what they say."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.flow.api_world import Api, serving
from tests.simulators.process import REPO_ROOT, child_environment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World

pytestmark = pytest.mark.asyncio(loop_scope="module")
RUNS = re.compile(r"<!-- runs in tests/flow/test_api_docs.py -->\n```(\w+)\n(.*?)```", re.DOTALL)
EXAMPLES = RUNS.findall((REPO_ROOT / "docs" / "api.md").read_text(encoding="utf-8"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(public_world: World) -> AsyncIterator[Api]:
    async with serving(public_world) as api:
        yield api


async def test_there_are_examples_in_both_languages() -> None:
    assert sorted(language for language, _ in EXAMPLES) == ["python", "python", "sh", "sh"]


@pytest.mark.parametrize(("language", "example"), EXAMPLES, ids=range(len(EXAMPLES)))
async def test_an_example_works(api: Api, language: str, example: str) -> None:
    program = {"python": (sys.executable, "-c"), "sh": ("bash", "-euc")}[language]
    process = await asyncio.create_subprocess_exec(
        *(*program, example),
        env=child_environment() | {"ANTLER_URL": api.url, "ANTLER_TOKEN": await api.token()},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    assert "You said:" in output.decode()
