"""The wizard behind `antler init`: its questions in order, forwards and back, and what follows from the answers."""

from __future__ import annotations

import contextlib
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

from bot.settings.load import variables
from bot.settings.problems import ConfigError
from bot.setup.accounts import AccountQuestions, account_draft
from bot.setup.files import Draft
from bot.setup.offers import OPENAI, PROVIDERS, local_providers, models_of
from bot.setup.questions import Back
from bot.setup.trials import RUNS_COMMANDS, system_zone, try_model, try_sandboxes
from channels.registry import name_of
from harness.scheduling.when import has_zone

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bot.setup.accounts import Ask
    from bot.setup.files import ConfigFiles
    from bot.setup.offers import Provider
    from bot.setup.questions import Questions
    from bot.texts.catalogue import Texts

    Step = Callable[[], Awaitable[None]]

LISTED = 12
"""Names of a provider's models that are shown."""


class Left(Exception):
    """The person does not want the config to be written."""


class Wizard:
    """Asks for a config. preset: values of flags, which are not asked for. environment: of the process."""

    def __init__(
        self,
        files: ConfigFiles,
        ask: Questions,
        tell: Callable[[str], None],
        texts: Texts,
        *,
        preset: Draft,
        environment: Mapping[str, str],
    ) -> None:
        self._files = files
        self._ask = ask
        self._tell = tell
        self._texts = texts
        self._say = texts.setup
        self._preset = preset
        self._environment = variables(files.path, environment)
        self._platforms: list[str] = []
        self._left_out: set[str] = set()
        """Platforms that the person gave up; what the flags say about their accounts does not count."""
        self._parts: dict[str, Draft] = {}
        self._provider: Provider | None = None

    async def run(self) -> None:
        """Ask everything, and write the result. Raises Left, ConfigError for a file that cannot be extended, and
        KeyboardInterrupt, with nothing written."""
        self._tell(self._say["intro"])
        place = 0
        while place < len(steps := self._steps()):
            self._tell("")
            try:
                await steps[place]()
            except Back:
                place = max(0, place - 1)
            except ConfigError as error:  # in what was kept or is there already: other answers may do
                if place <= (first := steps.index(self._choose)):
                    raise
                self._tell(str(error))
                place = first
            else:
                place += 1
        self._tell(self._say["written"].format(paths=", ".join(map(str, self._files.write(self._draft())))))

    def _steps(self) -> list[Step]:
        accounts = [partial(self._account, platform) for platform in self._platforms]
        first = [self._existing] if self._files.exists else []
        hears = self._provider is not None and bool(self._provider.transcribes)
        extras = [self._search, self._pages, *([self._voice] if hears else [])]
        return [*first, self._choose, *accounts, self._model, self._sandbox, self._zone, *extras, self._agree]

    def _draft(self) -> Draft:
        """All answers, on top of the flags' values."""
        whole = Draft()
        accounts = [f"account {platform}" for platform in self._platforms]
        wanted = [*accounts, "model", "sandbox", "zone", "search", "pages", "voice"]
        for part in (self._preset, *(self._parts[name] for name in wanted if name in self._parts)):
            whole.add(part)
        for account in self._left_out:
            whole.set(f"channels.{account}", None)
        return whole

    async def _existing(self) -> None:
        kept = f"{self._files.path.name}.before"
        self._tell(self._say["exists"].format(path=self._files.path))
        choices = {"add": self._say["exists_add"], "fresh": self._say["exists_fresh"].format(name=kept)}
        self._files.fresh = await self._ask.choose(self._say["what_now"], choices) == "fresh"
        if self._files.fresh:
            return
        self._files.known_accounts()  # raises for a file that cannot be extended
        try:
            self._files.settings(Draft())
        except ConfigError as error:  # the answers may correct it
            self._tell(str(error))

    async def _choose(self) -> None:
        choices = {platform: name_of(platform) for platform in ("telegram", "slack", "feishu", "wecom", "console")}
        self._platforms = await self._ask.several(self._say["platforms"], choices, self._platforms or ("telegram",))

    async def _account(self, platform: str) -> None:
        if platform == "console":
            self._parts["account console"] = account_draft(platform, platform, {})
            return
        questions = AccountQuestions(
            ask=self._ask,
            tell=self._tell,
            texts=self._texts,
            needed=self._needed,
            preset=self._preset.get("channels", {}),
            there=partial(self._files.account, self._preset),
            known=self._files.known_accounts(),
            network=self._files.network(self._preset),
        )
        self._left_out.discard(platform)
        part_or_none = await questions.account(platform)
        if part_or_none is None:
            self._left_out.add(platform)
        if part_or_none is None and len(self._platforms) == 1:
            raise Back  # to choose another
        self._parts[f"account {platform}"] = part_or_none or Draft()

    # The model.

    async def _model(self) -> None:
        say, local = self._say, await local_providers()
        offers = PROVIDERS | local
        labels = {key: offer.name for key, offer in PROVIDERS.items()}
        labels |= {key: say["model_local"].format(name=f"{each.name} ({each.model})") for key, each in local.items()}
        labels |= {"url": say["model_url"]}
        labels |= {"none": say["model_keep" if self._files.has("models") else "model_later"]}
        default = next(iter(local), OPENAI)
        part: Draft | None = None
        while part is None:
            default = await self._ask.choose(say["model"], labels, default)
            self._provider = offers.get(default)
            self._parts.pop("voice", None)
            with contextlib.suppress(Back):  # to the list
                part = Draft() if default == "none" else await self._asked_model()
        self._parts["model"] = part

    async def _asked_model(self) -> Draft | None:
        """A model that was tried; None when the person wants to choose again. Raises Back."""
        say, offer = self._say, self._provider
        base_url = offer.base_url if offer is not None else await self._ask.text(say["model_base_url"])
        variable = offer.variable if offer is not None else "MODEL_API_KEY"
        key = await self._key(variable, offer.keys if offer is not None else "", needed=offer is not None)
        network = self._files.network(self._preset)
        known = await models_of(base_url, key, route=(network.proxy_for(base_url), network.ca_file))
        if known:
            self._tell(say["model_known"].format(names=", ".join(known[:LISTED]) + (" …" if known[LISTED:] else "")))
        proposed = offer.model if offer is not None else ""
        proposed = proposed if proposed in known or not known else known[0]
        model = await self._ask.text(say["model_name"], proposed)
        self._tell(say["model_testing"].format(model=model))
        entry: dict[str, Any] = {"name": "main", "model": model, "base_url": base_url}
        tried = entry | ({"api_key": key} if key else {})
        outcome, sees = await try_model(tried, network, self._texts)
        self._tell("\n".join(outcome.lines))
        if not outcome.works:
            choices = {"again": say["again"]} | ({"keep": say["keep"]} if outcome.fits else {})
            if await self._ask.choose(say["what_now"], choices) == "again":
                return None
        return model_draft(entry, variable, key, sees=sees)

    async def _key(self, variable: str, where: str, *, needed: bool) -> str:
        if not variable:
            return ""
        if where:
            self._tell(self._say["model_key_where"].format(url=where))
        if not needed:
            return await self._ask.secret(self._say["model_key_free"])
        return await self._needed(self._ask.secret, self._say["model_key"], variable)

    async def _needed(self, ask: Ask, question: str, variable: str) -> str:
        """The typed value, or that of the environment where nothing is typed."""
        while not (typed := await ask(question)):
            if found := self._environment.get(variable):
                self._tell(self._say["from_environment"].format(name=variable))
                return found
            self._tell(self._say["missing_value"])
        return typed

    # What the agent may do, and where.

    async def _sandbox(self) -> None:
        say = self._say
        self._parts.pop("sandbox", None)
        self._tell(say["sandbox_trying"])
        found = await try_sandboxes(self._files.settings(self._draft()))
        self._tell("\n".join(str(facts) for facts in found.values()))
        working = {provider: str(facts) for provider, facts in found.items() if facts.state in RUNS_COMMANDS}
        if next(iter(working), None) != "bubblewrap":
            self._tell(say["sandbox_hint"])
        chosen = await self._ask.choose(say["sandbox"], working | {"off": say["sandbox_files"]})
        part = self._parts["sandbox"] = Draft()
        if chosen == "landlock":
            part.set("sandbox.use", chosen)
        elif chosen == "off":
            part.set("sandbox.use", "off")

    async def _zone(self) -> None:
        while not has_zone(zone := await self._ask.text(self._say["zone"], system_zone())):
            self._tell(self._say["zone_unknown"].format(zone=zone))
        part = self._parts["zone"] = Draft()
        if zone != "UTC":
            part.set("timezone", zone)

    async def _search(self) -> None:
        say, part = self._say, Draft()
        services = {name: say[f"search_{name}"] for name in ("none", "duckduckgo", "tavily")}
        search = await self._ask.choose(say["search"], services)
        if search != "none":
            part.set("web.search.provider", search)
        if search == "tavily":
            part.secrets["TAVILY_API_KEY"] = await self._needed(self._ask.secret, say["tavily_key"], "TAVILY_API_KEY")
            part.set("web.search.api_key", "$TAVILY_API_KEY")
        self._parts["search"] = part

    async def _pages(self) -> None:
        part = self._parts["pages"] = Draft()
        if await self._ask.yes(self._say["pages"], default=False):
            part.set("web.fetch.enabled", True)

    async def _voice(self) -> None:
        assert self._provider is not None
        part = self._parts["voice"] = Draft()
        if await self._ask.yes(self._say["voice"].format(name=self._provider.name), default=False):
            key = f"${self._provider.variable}"
            part.set("transcription", {"model": self._provider.transcribes, "api_key": key})

    async def _agree(self) -> None:
        """Show what will be written. Raises Left."""
        draft = self._draft()
        self._files.settings(draft)
        self._tell(self._say["review"].format(path=self._files.path))
        self._tell("\n" + "".join(f"  {line}\n" for line in self._files.config_text(draft).splitlines()))
        if draft.secrets:
            names = ", ".join(sorted(draft.secrets))
            self._tell(self._say["review_secrets"].format(path=self._files.env_path, names=names))
        if not await self._ask.yes(self._say["write"], default=True):
            raise Left


async def ask_start(ask: Questions, tell: Callable[[str], None], run: list[str], *, has_service: bool) -> str:
    """Ask what to do with the written config: "now", "service" or "later". run: the command that starts antler."""
    say = ask.say
    choices = {"now": say["start_now"]} | ({"service": say["start_service"]} if has_service else {})
    try:
        chosen = await ask.choose(say["start"], choices | {"later": say["start_later"]})
    except (Back, KeyboardInterrupt):  # it is written already
        chosen = "later"
    tell(say["claim"] if chosen != "later" else say["start_how"].format(command=shlex.join(run)))
    return chosen


def model_draft(entry: Mapping[str, Any], variable: str, key: str, *, sees: bool) -> Draft:
    """A model as written in the config: its key by the name of a variable."""
    draft = Draft(secrets={variable: key} if key else {})
    model = dict(entry) | ({"api_key": f"${variable}"} if key else {}) | ({"supports_vision": True} if sees else {})
    draft.set("models", [model])
    return draft
