"""80 attempts to get out of a sandbox; what they did is looked for on the host, not in what they say."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from tests.sandbox.conftest import private_folder
from tests.sandbox.escapes.world import World
from tests.sandbox.modes import BUBBLEWRAP_ROOT, Driver, Mode

if TYPE_CHECKING:
    from tests.sandbox.driver import Answer

ATTEMPTS = 80
SECONDS = 60.0
RUN = ("python3 attempts.py 2>/dev/null", SECONDS)
STILL_WORKS = ("echo fine > after && cat after && id -u", SECONDS)

OPEN_WITHOUT_A_SANDBOX = {
    *("A02", "A03", "A04", "A05", "A06", "A07", "A08", "A10", "A14", "A15"),
    *("B03", "B04", "B05"),
    *("C01", "C03", "C04", "C05", "C06", "C08", "C10"),
    *("D01", "D02", "D03", "D06", "D07", "D08", "D10"),
    *("E14", "E16"),
    *("S01", "S02", "S03", "S04", "S05"),
}
"""What any Linux lets an ordinary user do. Were one of these not to succeed here, its attempt would prove nothing."""


def attempt_everything(world: World, driver: Driver) -> tuple[dict[str, str], Answer]:
    """What got out, and all that the driver has to say."""
    driver.files = world.files()
    answer = driver.run(RUN, STILL_WORKS)
    got: dict[str, str] = json.loads(answer["results"][0]["output"])
    assert len(got) == ATTEMPTS
    return world.escaped(got, driver.workspace), answer


def test_nothing_gets_out(mode: Mode) -> None:
    with World(mode.user) as world:
        driver = Driver(mode, private_folder(world.top / "data", mode))
        escaped, answer = attempt_everything(world, driver)
        assert escaped == {}
        assert not world.pattern_changed()
        after = answer["results"][1]
        assert (after["exit_code"], after["output"].split()[0]) == (0, "fine")


def test_without_a_sandbox_the_attempts_succeed() -> None:
    mode = Mode("none", as_root=os.geteuid() == 0)
    with World(mode.user) as world:
        driver = Driver(mode, world.workspace, env={"SECRET": world.token})
        escaped, _ = attempt_everything(world, driver)
        assert OPEN_WITHOUT_A_SANDBOX - set(escaped) == set()


def test_a_sandbox_under_root_is_not_root_on_the_host() -> None:
    BUBBLEWRAP_ROOT.require()
    with World(BUBBLEWRAP_ROOT.user) as world:
        driver = Driver(BUBBLEWRAP_ROOT, private_folder(world.top / "data", BUBBLEWRAP_ROOT))
        driver.run(("touch made", SECONDS))
        assert (driver.workspace / "made").stat().st_uid == BUBBLEWRAP_ROOT.user != 0
        assert world.top.joinpath("data").stat().st_mode & 0o777 == 0o700
