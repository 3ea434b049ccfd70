"""Skills that administrators install while the gateway serves: from an address, with what they are at."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from bot.clock import SystemClock
from bot.settings import Settings
from bot.skills.folders import SwitchedOff, disabled
from bot.skills.installing import InstallRefused, Installs
from bot.skills.service import SkillService
from bot.tasks import Tasks
from harness.skills.archive import LARGEST_ARCHIVE
from tests.bot.skills.test_skill_tool import archive_of
from tests.harness.skills.writing import put_skill

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


def settings_in(folder: Path, **more: Any) -> Settings:
    return Settings.model_validate(
        {"channels": {"console": {}}, "data_dir": folder / "data", "skills": {"public": False}, **more}
    )


def installs_with(settings: Settings) -> Installs:
    return Installs(lambda: settings, SystemClock(), Tasks("test"))


async def parts_of(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 100):
        yield content[start : start + 100]


async def until(there: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if there():
                return
            await asyncio.sleep(0.001)


async def served(path: str, content: bytes) -> tuple[web.AppRunner, str]:
    """A server on loopback with one file, and the file's address."""
    app = web.Application()

    async def file(request: web.Request) -> web.Response:
        return web.Response(body=content, content_type="application/octet-stream")

    app.router.add_get(path, file)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_one_is_installed_from_an_address_that_the_operator_opened(tmp_path: Path) -> None:
    archive = archive_of(put_skill(tmp_path, "tidy", "Tidies.")).read_bytes()
    runner, root = await served("/made/tidy.skill", archive)
    try:
        installs = installs_with(settings_in(tmp_path, web={"fetch": {"allow": [root.removeprefix("http://")]}}))
        done = await installs.from_address(f"{root}/made/tidy.skill?version=1", replace=False, by="a:1")
        assert (done.state, done.name, done.source, done.received) == ("installed", "tidy", "tidy.skill", len(archive))
        with pytest.raises(InstallRefused, match="already exists"):
            await installs.from_address(f"{root}/made/tidy.skill", replace=False, by="a:1")
        again = await installs.from_address(f"{root}/made/tidy.skill", replace=True, by="a:1")
        assert again.replaced
        with pytest.raises(InstallRefused, match="there is no such page"):
            await installs.from_address(f"{root}/nowhere.skill", replace=False, by="a:1")
        assert [(each.state, each.by) for each in installs.recent] == [
            ("refused", "a:1"),
            ("installed", "a:1"),
            ("refused", "a:1"),
            ("installed", "a:1"),
        ]
    finally:
        await runner.cleanup()


async def test_an_address_of_the_inside_is_not_fetched(tmp_path: Path) -> None:
    runner, root = await served("/tidy.skill", b"never asked for")
    try:
        installs = installs_with(settings_in(tmp_path))
        for address in (f"{root}/tidy.skill", "http://169.254.169.254/x.zip", "file:///etc/passwd", "tidy.skill"):
            with pytest.raises(InstallRefused, match="the archive could not be downloaded"):
                await installs.from_address(address, replace=False, by="a:1")
    finally:
        await runner.cleanup()


async def test_what_is_too_large_or_breaks_off_is_refused_and_said(tmp_path: Path) -> None:
    installs = installs_with(settings_in(tmp_path))

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1_000_000)

    with pytest.raises(InstallRefused, match="is larger than"):
        await installs.from_archive("x.skill", endless(), replace=False, by="a:1")
    assert installs.recent[0].received <= LARGEST_ARCHIVE + 1_000_000

    async def broken() -> AsyncIterator[bytes]:
        yield b"PK"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await installs.from_archive("y.skill", broken(), replace=False, by="a:1")
    assert (installs.recent[0].state, installs.recent[0].problems) == ("refused", ("the upload was interrupted",))


async def test_what_was_begun_is_done_although_nobody_waits_for_it(tmp_path: Path) -> None:
    archive = archive_of(put_skill(tmp_path, "tidy", "Tidies.")).read_bytes()
    settings = settings_in(tmp_path)
    installs = installs_with(settings)
    asking = asyncio.ensure_future(
        installs.from_archive("../../tidy.skill", parts_of(archive), replace=False, by="a:1")
    )
    await until(lambda: bool(installs.recent) and installs.recent[0].state != "receiving")
    asking.cancel()
    await until(lambda: installs.recent[0].state != "checking")
    assert (installs.recent[0].state, installs.recent[0].source) == ("installed", "tidy.skill")
    assert (settings.custom_skills / "tidy" / "SKILL.md").is_file()


def test_what_an_administrator_turned_off_stays_off_beside_what_the_config_turns_off(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, skills={"disabled": ["one"]})
    switched = SwitchedOff(settings.data_dir)
    switched.switch("two", on=False)
    switched.switch("two", on=False)
    assert disabled(settings) == {"one", "two"}
    switched.switch("two", on=True)
    switched.switch("one", on=True)
    assert disabled(settings) == {"one"}, "the config says so"
    (settings.data_dir / "skills" / "off.json").write_text("{broken")
    assert disabled(settings) == {"one"}
    with pytest.raises(OSError, match="cannot be read"):
        switched.switch("three", on=False)


async def test_two_that_are_turned_off_at_once_are_both_off(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    service = SkillService(switched_off=SwitchedOff(settings.data_dir))
    names = [f"skill-{number}" for number in range(20)]
    await asyncio.gather(*(service.switch(name, on=False) for name in names))
    assert service.disabled == disabled(settings) == set(names)
