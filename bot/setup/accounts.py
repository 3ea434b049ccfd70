"""The wizard's questions about one account: its credentials, tested as they are entered, until they work."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from bot.access.pairing import qr_code
from bot.setup.files import Draft
from bot.setup.offers import CREDENTIALS, Credential
from bot.setup.questions import Back
from bot.setup.trials import account_route, try_account
from channels.registry import NoManifest, manifest, name_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bot.settings.sections import NetworkSettings
    from bot.setup.questions import Questions
    from bot.texts.catalogue import Texts

    Ask = Callable[[str], Awaitable[str]]

APP_NAME = "Antler"
SLACK_CREATE = "https://api.slack.com/apps?new_app=1&manifest_yaml="


@dataclass(frozen=True, slots=True)
class AccountQuestions:
    """Asks for an account. needed: asks in the given way until something is typed, or a variable has it. preset: by
    account, keys that are not asked for. there: returns an account's keys of the flags and the config. known: the
    config's accounts."""

    ask: Questions
    tell: Callable[[str], None]
    texts: Texts
    needed: Callable[[Ask, str, str], Awaitable[str]]
    preset: Mapping[str, Mapping[str, Any]]
    there: Callable[[str], Mapping[str, Any]]
    known: Mapping[str, Any]
    network: NetworkSettings

    async def account(self, platform: str) -> Draft | None:
        """An account's additions to the config; None when the person leaves it out."""
        say = self.texts.setup
        account, number = await self._id(platform)
        while True:
            values = await self._values(platform, account, number)
            self.tell(say["checking"].format(name=name_of(platform)))
            tried = {**self.there(account), **values}
            outcome = await try_account(platform, account, tried, self.network, self.texts)
            self.tell("\n".join(outcome.lines))
            if outcome.works:
                return account_draft(platform, account, values, number)
            kept = {"keep": say["keep"]} if outcome.fits else {}
            choices = {"again": say["again"], **kept, "out": say["leave_out"].format(name=account)}
            match await self.ask.choose(say["what_now"], choices):
                case "keep":
                    return account_draft(platform, account, values, number)
                case "out":
                    return None

    async def _id(self, platform: str) -> tuple[str, int]:
        """The account's id, and the number that distinguishes its variables from those of other bots there."""
        if platform not in self.known:
            return platform, 1
        say = self.texts.setup
        self.tell(say["account_there"].format(account=platform))
        choices = {"replace": say["account_replace"], "another": say["account_another"]}
        if await self.ask.choose(say["what_now"], choices) == "replace":
            return platform, 1
        number = next(number for number in range(2, 1000) if f"{platform}-{number}" not in self.known)
        return f"{platform}-{number}", number

    async def _values(self, platform: str, account: str, number: int) -> dict[str, Any]:
        """The credentials that the flags do not give."""
        say, values = self.texts.setup, dict[str, Any]()
        if platform == "feishu" and await self._scans():
            with contextlib.suppress(Back):
                return dict(await self._registered(self.there(account)))
        self.tell(self.texts.setup_guides[platform])
        if link := creation_link(platform):
            self.tell(f"{say['manifest']}\n{link}")
        given = self.preset.get(account, {})
        asked, place = [each for each in CREDENTIALS[platform] if each.key not in given], 0
        while place < len(asked):
            try:
                values[asked[place].key] = await self._credential(platform, asked[place], number)
                place += 1
            except Back:
                if place == 0:
                    raise
                place -= 1
        return values

    async def _credential(self, platform: str, credential: Credential, number: int) -> str:
        label = self.texts.setup_labels[f"{platform}.{credential.key}"]
        ask = self.ask.secret if credential.variable else self.ask.text
        return await self.needed(ask, label, variable_of(credential, number))

    async def _scans(self) -> bool:
        say = self.texts.setup
        choices = {"scan": say["feishu_scan"], "typed": say["feishu_typed"]}
        return await self.ask.choose(say["feishu_how"], choices) == "scan"

    async def _registered(self, there: Mapping[str, Any]) -> dict[str, str]:
        """The credentials of an app that is created by scanning a code. Raises Back when none was created."""
        from channels.feishu.registration import RegistrationFailed, register

        say = self.texts.setup
        self.tell(say["feishu_loading"])

        def show(url: str, seconds: int) -> None:
            self.tell(f"{say['feishu_code'].format(minutes=round(seconds / 60))}\n{url}\n{qr_code(url)}")

        try:
            made = await register(str(there.get("domain", "feishu")), show, partial(account_route, there, self.network))
        except RegistrationFailed as error:
            self.tell(say["feishu_failed"].format(why=error))
            raise Back from None
        self.tell(say["feishu_made"].format(app=made.app_id))
        values = {"app_id": made.app_id, "app_secret": made.app_secret}
        return values | ({"domain": made.domain} if made.domain != "feishu" else {})


def account_draft(platform: str, account: str, values: Mapping[str, Any], number: int = 1) -> Draft:
    """An account as written in the config: its secrets by the names of their variables."""
    entry: dict[str, Any] = {} if account == platform else {"type": platform}
    draft = Draft()
    secret = {credential.key: credential for credential in CREDENTIALS.get(platform, ()) if credential.variable}
    for key, value in values.items():
        if key in secret:
            variable = variable_of(secret[key], number)
            draft.secrets[variable], entry[key] = str(value), f"${variable}"
        else:
            entry[key] = value
    draft.set(f"channels.{account}", entry)
    return draft


def variable_of(credential: Credential, number: int) -> str:
    """The variable that holds a secret of the first, second, ... bot on a platform."""
    return credential.variable if number == 1 else f"{credential.variable}_{number}"


def creation_link(platform: str) -> str:
    """A prefilled link to the platform's page for creating the app; "" where there is none."""
    try:
        return f"{SLACK_CREATE}{quote(manifest(platform, APP_NAME))}"
    except NoManifest:
        return ""
