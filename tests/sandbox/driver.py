"""A gateway's sandbox in a process of its own, so that tests can run it as another user, or kill it.

Reads one JSON object (see `Orders`) and prints one (see `Answer`). Started by modes.py.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

from sandbox.base import CommandResult, Ending, SandboxUnavailable
from sandbox.config import SandboxSettings
from sandbox.files.workspace import Workspaces
from sandbox.launcher.client import Launcher
from sandbox.launcher.spec import Identity, LaunchSpec
from sandbox.local.bubblewrap import BubblewrapProvider
from sandbox.local.host import HostProvider
from sandbox.local.landlock import LandlockProvider
from sandbox.local.process import run
from sandbox.policy import shell

PROVIDERS = {"bubblewrap": BubblewrapProvider, "landlock": LandlockProvider, "host": HostProvider}


class Orders(TypedDict):
    """provider: "none" runs the commands in `data`, held by nothing but the user. commands: with their time-outs.
    delete: the thread's folders at the end. runtime: a folder for /opt/antler, or "". Skills are seen where there are
    some below `data`."""

    provider: str
    data: str
    settings: dict[str, Any]
    files: dict[str, str]
    env: dict[str, str]
    commands: list[tuple[str, float]]
    delete: bool
    runtime: str


class Answer(TypedDict, total=False):
    report: dict[str, Any]
    unavailable: str
    hint: str
    results: list[dict[str, Any]]


def instance_of(data: str) -> str:
    """One for each data folder, as with a real gateway."""
    return "test-" + hashlib.sha256(data.encode()).hexdigest()[:8]


async def held(orders: Orders) -> Answer:
    settings = SandboxSettings.model_validate(orders["settings"])
    folder = Path(orders["data"])
    skills = {"public": folder / "skills" / "public", "mine": folder / "users" / "t" / "skills"}
    workspaces = Workspaces(lambda thread: folder / "threads" / thread / "user-data", settings, skills=lambda _: skills)
    try:
        runtime = Path(orders["runtime"]) if orders["runtime"] else None
        make = PROVIDERS[orders["provider"]]
        provider = make(settings, workspaces, instance=instance_of(orders["data"]), runtime=runtime)
        report = await provider.start()
    except SandboxUnavailable as error:
        return {"unavailable": str(error), "hint": error.hint}
    try:
        sandbox = await provider.acquire("t")
        for name, content in orders["files"].items():
            await sandbox.write_file(name, content)
        results = [await sandbox.execute_command(command, timeout=timeout) for command, timeout in orders["commands"]]
        await provider.forget("t")
        if orders["delete"]:
            await workspaces.delete("t")
    finally:
        await provider.shutdown()
    return {"report": asdict(report), "results": [asdict(each) for each in results]}


async def free(orders: Orders) -> Answer:
    """The same commands, held by nothing."""
    user = SandboxSettings.model_validate(orders["settings"]).uid
    folder = Path(orders["data"])
    for name, content in orders["files"].items():
        await asyncio.to_thread((folder / name).write_text, content)
    launcher = Launcher()
    results = []
    for command, timeout in orders["commands"]:
        spec = LaunchSpec(
            argv=shell(command),
            cwd=str(folder),
            env=(*orders["env"].items(), ("PATH", "/usr/local/bin:/usr/bin:/bin")),
            identity=Identity(uid=user, gid=user) if os.geteuid() == 0 else None,
        )
        done = await run(launcher, spec, timeout=timeout)
        results.append(
            CommandResult(ending=Ending.EXITED, exit_code=done.exit_code, output=done.text.output, seconds=done.seconds)
        )
    await launcher.close()
    return {"results": [asdict(each) for each in results]}


def main() -> None:
    orders: Orders = json.load(sys.stdin)
    json.dump(asyncio.run(free(orders) if orders["provider"] == "none" else held(orders)), sys.stdout)


if __name__ == "__main__":
    main()
