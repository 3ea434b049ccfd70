"""`antler init --yes`: the wizard with answers from flags and the environment, tried alike, without questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from bot.settings.load import variables
from bot.setup.accounts import account_draft
from bot.setup.files import Draft
from bot.setup.offers import CREDENTIALS, OPENAI, PROVIDERS, Provider
from bot.setup.trials import system_zone, try_account, try_model, try_sandboxes
from bot.setup.wizard import model_draft

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bot.setup.files import ConfigFiles
    from bot.texts.catalogue import Texts

FLAGS = """\
there is no terminal for questions. In a script, use antler init --yes with
  --platform NAME       telegram, slack, feishu, wecom or console; repeatable. Credentials are read from
                        TELEGRAM_BOT_TOKEN, SLACK_BOT_TOKEN, SLACK_APP_TOKEN, FEISHU_APP_ID, FEISHU_APP_SECRET,
                        WECOM_BOT_ID, WECOM_SECRET
  --secret-env K=NAME   another variable for one of them: telegram.token=MY_TOKEN, model.api_key=MY_KEY
  --provider NAME       openai, deepseek, ...; or --base-url URL; and --model NAME. The key is read from the provider's
                        variable, such as OPENAI_API_KEY; of another server from MODEL_API_KEY
  --set KEY=VALUE       any other key of the config: channels.feishu.domain=lark"""


class WrongFlags(Exception):
    """The flags and the environment are not sufficient, or yield no config; the text says what to change."""


class TrialFailed(Exception):
    """A credential or the model does not work; the details have been reported."""


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of the command line. secret_env: "telegram.token" -> variable. settings: dotted key -> value."""

    platforms: Sequence[str] = ()
    secret_env: Mapping[str, str] = field(default_factory=dict)
    provider: str | None = None
    base_url: str | None = None
    model: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def preset(self) -> Draft:
        """The values of --set."""
        draft = Draft()
        for key, value in self.settings.items():
            draft.set(key, value)
        return draft


def read_flags(
    platforms: Sequence[str],
    secret_env: Sequence[str],
    provider: str | None,
    base_url: str | None,
    model: str | None,
    settings: Sequence[str],
) -> Flags:
    """Parse the flags. Raises WrongFlags."""
    if unknown := [name for name in platforms if name not in (*CREDENTIALS, "console")]:
        raise WrongFlags(f"--platform {unknown[0]} is not one of {', '.join((*CREDENTIALS, 'console'))}")
    if provider is not None and provider not in PROVIDERS:
        raise WrongFlags(f"--provider {provider} is not one of {', '.join(PROVIDERS)}")
    try:
        values = {key: yaml.safe_load(value) for key, value in _pairs("--set", settings)}
        if typed := [key for key, value in values.items() if _is_secret(key) and not str(value).startswith("$")]:
            raise WrongFlags(f"--set {typed[0]}: other users can see a command line; put it into the environment")
    except yaml.YAMLError:
        raise WrongFlags("a value of --set is not valid YAML") from None
    return Flags(platforms, dict(_pairs("--secret-env", secret_env)), provider, base_url, model, values)


def _is_secret(key: str) -> bool:
    secrets = {each.key for credentials in CREDENTIALS.values() for each in credentials if each.variable}
    return key.rpartition(".")[2] in secrets | {"api_key"}


def _pairs(option: str, given: Sequence[str]) -> list[tuple[str, str]]:
    split = [each.partition("=") for each in given]
    if bad := [key for key, sign, value in split if not (key and sign and value)]:
        raise WrongFlags(f"{option} {bad[0]}: expected KEY=VALUE")
    return [(key, value) for key, _, value in split]


async def write(
    files: ConfigFiles, flags: Flags, tell: Callable[[str], None], texts: Texts, env: Mapping[str, str]
) -> None:
    """Try what the flags say, and write it. Raises WrongFlags, TrialFailed and ConfigError, with nothing written."""
    env = variables(files.path, env)
    draft, network = flags.preset(), files.network(flags.preset())
    platforms = flags.platforms or [name for name in CREDENTIALS if not _missing(name, flags, env)]
    if not platforms:
        raise WrongFlags("no platform: give --platform, or set its variables (antler init --help)")
    works = True
    for platform in platforms:
        if platform == "console":
            draft.add(account_draft(platform, platform, {}))
            continue
        values = _values(platform, flags, env)
        tried = files.account(draft, platform) | values
        outcome = await try_account(platform, platform, tried, network, texts)
        tell("\n".join(outcome.lines))
        works = works and outcome.works
        draft.add(account_draft(platform, platform, values))
    if flags.provider or flags.base_url or flags.model:
        entry, variable, key = _model(flags, env)
        outcome, sees = await try_model(entry | ({"api_key": key} if key else {}), network, texts)
        tell("\n".join(outcome.lines))
        works = works and outcome.works
        draft.add(model_draft(entry, variable, key, sees=sees))
    if not works:
        raise TrialFailed
    if draft.get("timezone") is None and not files.has("timezone") and (zone := system_zone()) != "UTC":
        draft.set("timezone", zone)
    found = await try_sandboxes(files.settings(draft))
    tell("\n".join(str(facts) for facts in found.values()))
    tell(texts.setup["written"].format(paths=", ".join(map(str, files.write(draft)))))


def _variable(platform: str, key: str, flags: Flags) -> str:
    """The variable in which a script gives a credential; one that is not secret has a variable here as well."""
    credential = next(each for each in CREDENTIALS[platform] if each.key == key)
    return flags.secret_env.get(f"{platform}.{key}") or credential.variable or f"{platform}_{key}".upper()


def _missing(platform: str, flags: Flags, env: Mapping[str, str]) -> list[str]:
    preset = flags.preset().get(f"channels.{platform}", {})
    keys = [credential.key for credential in CREDENTIALS[platform] if credential.key not in preset]
    return [variable for key in keys if not env.get(variable := _variable(platform, key, flags))]


def _values(platform: str, flags: Flags, env: Mapping[str, str]) -> dict[str, str]:
    if missing := _missing(platform, flags, env):
        raise WrongFlags(f"--platform {platform}: set {' and '.join(missing)} in the environment")
    variables_of = {credential.key: _variable(platform, credential.key, flags) for credential in CREDENTIALS[platform]}
    return {key: env[variable] for key, variable in variables_of.items() if env.get(variable)}


def _model(flags: Flags, env: Mapping[str, str]) -> tuple[dict[str, Any], str, str]:
    """The model's entry without its key, the variable of the key, and the key."""
    offer = PROVIDERS[flags.provider or OPENAI] if not flags.base_url else Provider("", flags.base_url, "MODEL_API_KEY")
    model, given = flags.model or offer.model, flags.secret_env.get("model.api_key", offer.variable)
    if not model:
        raise WrongFlags("--model NAME is required: this provider has no default model")
    key = env.get(given, "")
    if not key and not flags.base_url:
        raise WrongFlags(f"--provider {flags.provider or OPENAI}: set {given} in the environment")
    return {"name": "main", "model": model, "base_url": offer.base_url}, offer.variable, key
