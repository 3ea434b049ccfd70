"""Trials by `antler init` while it asks: credentials at their platform, a model, and where commands can run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from bot.clock import SystemClock
from bot.settings.checks import check_tree
from bot.settings.model import COMMON_KEYS
from bot.settings.problems import dotted
from bot.setup.files import plain
from channels.base import Route
from channels.registry import config_class, name_of, probe
from harness.config import ModelSettings
from harness.scheduling.when import has_zone

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bot.files.sandboxes import SandboxFacts
    from bot.settings import Settings
    from bot.settings.sections import NetworkSettings
    from bot.texts.catalogue import Texts
    from harness.models.probe import ModelReport

ISOLATING = ("bubblewrap", "landlock")
"""Providers of sandboxes that need nothing but this machine, the better one first."""
RUNS_COMMANDS = ("full", "restricted")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a trial. lines: for a person. works: there is no obstacle. fits: a config may contain it."""

    lines: tuple[str, ...]
    works: bool
    fits: bool = True


async def try_account(
    platform: str, account: str, values: Mapping[str, Any], network: NetworkSettings, texts: Texts
) -> Outcome:
    """Test credentials at the platform. values: the keys of the account, secrets in plain text."""
    say = texts.setup
    try:
        own = {key: value for key, value in values.items() if key not in COMMON_KEYS}
        config = config_class(platform).model_validate(own)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, each['loc']))}: {plain(each['msg'])}" for each in error.errors()]
        return Outcome(tuple(say["problem"].format(what=fault) for fault in faults), works=False, fits=False)
    report = await probe(platform, account, config, partial(account_route, values, network), SystemClock(), alone=True)
    lines = []
    if report.identity is not None:
        place = say["account_place"].format(place=report.place) if report.place else ""
        bot = report.identity.username or report.identity.bot_id
        lines.append(say["account_ok"].format(name=name_of(platform), bot=bot) + place)
    for problem in report.problems:
        lines.append(say["problem" if problem.fatal else "weakness"].format(what=problem.what))
        lines.append(say["remedy"].format(remedy=problem.remedy))
    fatal = any(problem.fatal for problem in report.problems)
    return Outcome((*lines, *report.notes), works=report.identity is not None and not fatal)


def account_route(values: Mapping[str, Any], network: NetworkSettings, url: str) -> Route:
    """The route of an account to a URL. values: as in try_account."""
    return Route(proxy=network.proxy_for(url, values.get("proxy")), ca_file=network.ca_file)


async def try_model(model: Mapping[str, Any], network: NetworkSettings, texts: Texts) -> tuple[Outcome, bool]:
    """Have a model answer, call a tool and look at a picture; also returns whether it sees. model: as in the config,
    its key in plain text."""
    from harness.models.probe import probe as ask  # takes a second to import

    say = texts.setup
    try:
        settings = ModelSettings.model_validate({**model, "supports_vision": True})
        faults = [each for each in check_tree({"models": [model]}) if each.path[0] == "models"]
        told = [f"{dotted(each.path)}: {each.message}; {each.suggestion}" for each in faults]
    except ValidationError as error:
        told = [f"models[0].{each['loc'][0]}: {plain(each['msg'])}" for each in error.errors()]
    if told:
        return Outcome(tuple(say["problem"].format(what=what) for what in told), works=False, fits=False), False
    report = await ask(settings, (network.proxy_for(settings.base_url or "https://internet.invalid"), network.ca_file))
    return Outcome(tuple(_told(settings, report, say)), works=report.first_word is not None), report.sees is True


def _told(settings: ModelSettings, report: ModelReport, say: Mapping[str, str]) -> list[str]:
    lines = []
    if report.first_word is not None:
        lines.append(say["model_answers"].format(model=settings.model, seconds=round(report.first_word, 1)))
    lines += [say["model_streams"]] if report.streams else []
    lines += [say["model_tools"]] if report.calls_tools else []
    lines += [say["model_sees"]] if report.sees else []
    for problem in report.problems:
        if "supports_vision" in problem.remedy:  # it is not declared to see
            lines.append(say["model_blind"])
        else:
            lines.append(say["problem" if problem.fatal else "weakness"].format(what=problem.what))
            lines.append(say["remedy"].format(remedy=problem.remedy))
    return lines


async def try_sandboxes(settings: Settings) -> dict[str, SandboxFacts]:
    """What the providers of ISOLATING can do on this machine; only the first where it fully isolates commands."""
    from bot.files.sandboxes import probe as ask

    found = {}
    for provider in ISOLATING:
        sandbox = settings.sandbox.model_copy(update={"use": provider})
        found[provider] = await ask(settings.model_copy(update={"sandbox": sandbox}))
        if found[provider].state == "full":
            break
    return found


def system_zone() -> str:
    """The machine's time zone, UTC where it is unknown."""
    linked = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    written = Path("/etc/timezone")
    named = written.read_text(encoding="utf-8").strip() if written.is_file() else ""
    return next((zone for zone in (os.environ.get("TZ", ""), linked, named) if zone and has_zone(zone)), "UTC")
