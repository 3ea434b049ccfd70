"""`antler doctor`: reads the config, finds out whether a gateway runs, runs all checks concurrently, and reports."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, NamedTuple

from bot.control.actions import Action, tell
from bot.control.lock import holder
from bot.control.server import NotRunning, read_status
from bot.doctor import config, machine, online, parts
from bot.doctor.findings import Diagnosis, Examined, Finding, Group, Severity, error, of_config
from bot.redaction import Redactor
from bot.settings.problems import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bot.settings.load import SettingsSource

Check = Callable[[Examined], Awaitable[list[Finding]]]
EXIT_CONFIG = 78
LOOKING, STARTING = 15.0, 75.0
"""Seconds for a check that only inspects, and for one that starts something."""


class Subject(NamedTuple):
    """A check, and the title above its findings. when: online ones use the network, offline ones report less than an
    online one of the same title."""

    title: str
    check: Check
    seconds: float = LOOKING
    when: Literal["always", "offline", "online"] = "always"


SUBJECTS = (
    Subject("Antler", machine.versions),
    Subject("Antler", machine.gateway),
    Subject("Config", parts.config_file),
    Subject("Data", machine.data_folder),
    Subject("Data", machine.disk),
    Subject("Data", machine.database),
    Subject("Time", machine.clock),
    Subject("Time", online.clock, when="online"),
    Subject("Proxies", online.proxies, when="online"),
    Subject("Page", config.page),
    Subject("Accounts", online.accounts, online.ACCOUNT_SECONDS + LOOKING, when="online"),
    Subject("Models", parts.models, when="offline"),
    Subject("Models", online.models, online.MODEL_SECONDS + LOOKING, when="online"),
    Subject("Transcription", online.transcription, online.ACCOUNT_SECONDS + LOOKING, when="online"),
    Subject("Speech", online.speech, online.ACCOUNT_SECONDS + LOOKING, when="online"),
    Subject("Pictures", online.images, online.ACCOUNT_SECONDS + LOOKING, when="online"),
    Subject("Search", parts.search, when="offline"),
    Subject("Search", online.search, online.ACCOUNT_SECONDS + LOOKING, when="online"),
    Subject("Knowledge", parts.knowledge),
    Subject("Knowledge", online.knowledge, online.ACCOUNT_SECONDS + LOOKING, when="online"),
    Subject("MCP servers", parts.local_servers, STARTING),
    Subject("MCP servers", online.servers, STARTING, when="online"),
    Subject("Sandbox", parts.sandbox, STARTING),
    Subject("Skills", parts.skills),
)
"""In the order in which they are reported."""


def run(source: SettingsSource, *, as_json: bool, fix: bool, ask: bool) -> int:
    """Print the diagnosis; returns the exit code. ask: use the network too."""
    logging.disable(logging.CRITICAL)  # what parts log at their start is reported here, with its remedy
    diagnosis, code = asyncio.run(examine(source, fix=fix, ask=ask))
    if diagnosis.fixed:
        logging.disable(logging.NOTSET)
        tell(source.read(), Action.DOCTOR_FIX, what=", ".join(diagnosis.fixed))
    print(diagnosis.to_json() if as_json else diagnosis.to_text(sys.stdout.encoding or "ascii"))
    return code


async def examine(source: SettingsSource, *, fix: bool, ask: bool) -> tuple[Diagnosis, int]:
    """The diagnosis and the exit code: that of the worst finding, or EXIT_CONFIG where the config yields no settings;
    then little else can be checked."""
    antler = version("antler")
    try:
        settings = await asyncio.to_thread(source.read)
    except ConfigError as failure:
        faults = tuple(of_config(problem, Severity.ERROR) for problem in failure.problems)
        groups = [Group("Antler", tuple(await asyncio.to_thread(machine.installed))), Group("Config", faults)]
        return Diagnosis(antler=antler, online=ask, groups=groups), EXIT_CONFIG
    try:
        gateway = await read_status(settings.data_dir)
    except NotRunning:
        gateway = None
    served = gateway is not None or holder(settings.data_dir) is not None
    examined = Examined(settings=settings, file=source.path, gateway=gateway, served=served, fix=fix)
    subjects = [subject for subject in SUBJECTS if subject.when in ("always", "online" if ask else "offline")]
    found = await asyncio.gather(*(check(subject, examined) for subject in subjects))
    redact = Redactor(settings.secrets())
    told = [(subject.title, each.cleaned(redact)) for subject, one in zip(subjects, found, strict=True) for each in one]
    diagnosis = Diagnosis(antler=antler, online=ask, groups=_grouped(told))
    return diagnosis, diagnosis.exit_code


async def check(subject: Subject, examined: Examined) -> list[Finding]:
    """The findings of a check; its own failure is a finding too, so that the others are still reported."""
    try:
        async with asyncio.timeout(subject.seconds):
            return await subject.check(examined)
    except TimeoutError:
        return [error(subject.title, f"did not finish within {subject.seconds:.0f} s", "run antler doctor again")]
    except Exception as failure:  # whatever it is, the other findings matter more
        says = f"could not be checked: {type(failure).__name__}: {failure}"
        return [error(subject.title, says, "this is a bug in antler doctor: report it")]


def _grouped(told: Iterable[tuple[str, Finding]]) -> list[Group]:
    groups: dict[str, list[Finding]] = {}
    for title, finding in told:
        groups.setdefault(title, []).append(finding)
    return [Group(title, tuple(findings)) for title, findings in groups.items()]
