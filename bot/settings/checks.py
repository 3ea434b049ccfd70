"""Checks across sections and against this machine. They work on the merged tree as it was written, so that a faulty
section does not hide faults of another; everything that the schema can check is left to it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bot.settings.problems import Finding, did_you_mean, dotted
from bot.settings.sections import ACCOUNT_ID, ANYBODY, check_identity, with_account
from channels.registry import PLATFORMS, config_class, names_group
from harness.config import SAME, install_command, package_of
from harness.mcp.config import LEAD
from harness.research.config import RoleModels
from harness.subagents.config import BASH, GENERAL_PURPOSE, INHERIT
from sandbox.config import PROVIDERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bot.settings.problems import Path

_PLACEHOLDER = re.compile(r"<[^<>]*>|.*replace-me.*", re.IGNORECASE | re.DOTALL)
CLASS_PATH = re.compile(r"([A-Za-z_]\w*)(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
ONE_CALL = re.compile(
    r"(?<=[^/])/(chat/completions|audio/transcriptions|audio/speech|images/generations|completions|responses|embeddings|messages|models)/*$"
)
"""The path of a call's address in examples and dashboards, which is often pasted instead of the service's address."""
SHARED_FOLDERS = ("threads", "users", "spool")
"""Folders in data_dir that may come from another file system, with other rights."""
NOT_FOUND = "its Python package is not installed, and in no folder of PYTHONPATH"
THINKING = ("show_thinking", "return_thinking", "when_thinking_enabled", "when_thinking_disabled")


def check_tree(values: Mapping[str, Any]) -> list[Finding]:
    """All faults of the tree that its schema cannot find."""
    checks = (
        _placeholders,
        _base_urls,
        _accounts,
        _same_secrets,
        _strange_accounts,
        _groups,
        check_models,
        check_helpers,
        _media_services,
        check_budgets,
        _tools,
        _engines,
        _subagents,
        _agents_of_servers,
        _research,
        _history,
        _files,
        _sandbox,
    )
    return list(chain.from_iterable(check(values) for check in checks))


def _placeholders(values: Mapping[str, Any]) -> Iterator[Finding]:
    for path, value in _leaves(values, ()):
        if isinstance(value, str) and _PLACEHOLDER.fullmatch(value):
            yield Finding(path, "is still the example's placeholder", "put your own value there, or remove the line")


def _base_urls(values: Mapping[str, Any]) -> Iterator[Finding]:
    for path, value in _leaves(values, ()):
        if path[-1] != "base_url" or not isinstance(value, str):
            continue
        if not value:
            yield Finding(path, "is empty", "leave it out for the provider's own address")
        elif not value.startswith(("http://", "https://")):
            yield Finding(path, "has no scheme", "start it with https:// or http://")
        elif not _names_server(value):
            yield Finding(path, "has no host, or no valid port", "write it as https://host:port/path")


def _names_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Reading the port checks it, encoding the name its parts. urlsplit ignores line breaks, which clients refuse.
        return bool((parts.hostname or "").encode("idna")) and parts.port != 0 and url.isprintable()
    except ValueError:
        return False


def _accounts(values: Mapping[str, Any]) -> Iterator[Finding]:
    if not values.get("channels"):
        yield Finding(("channels",), "no account is configured", "the terminal is `channels: {console: {}}`")


def _same_secrets(values: Mapping[str, Any]) -> Iterator[Finding]:
    """Find credentials given under two ids: both would receive everything, or compete for the connection."""
    first: dict[str, str] = {}
    for account, channel in _section(values, "channels").items():
        for key in _secret_keys(account, channel):
            secret = channel.get(key)
            if not isinstance(secret, str) or not secret or _is_unset(secret):
                continue
            if secret in first:
                message = f"is a duplicate account: the same {key} as channels.{first[secret]}"
                yield Finding(("channels", account, key), message, "keep one of the two")
            first.setdefault(secret, account)


def _secret_keys(account: str, channel: Any) -> list[str]:
    platform = channel.get("type", account) if isinstance(channel, dict) else None
    if not isinstance(platform, str) or platform not in PLATFORMS:
        return []
    fields = config_class(platform).model_fields
    return [name for name, field in fields.items() if "SecretStr" in str(field.annotation)]


def _is_unset(secret: str) -> bool:
    """Whether it is an unexpanded reference or a placeholder: already reported, and no credential."""
    return secret.startswith("$") or bool(_PLACEHOLDER.fullmatch(secret))


def _strange_accounts(values: Mapping[str, Any]) -> Iterator[Finding]:
    known = _section(values, "channels")
    for path, entry in _access_entries(values):
        if isinstance(entry, str) and entry != ANYBODY and ":" in entry:
            account = entry.partition(":")[0]
            if account not in known and re.match(ACCOUNT_ID, account):
                yield Finding(path, "belongs to an account that is not configured", did_you_mean(account, known))
        elif isinstance(entry, int) and path[0] == "access":
            yield Finding(path, "has no account prefix", f'write it as "{next(iter(known), "account")}:<id>"')


def _groups(values: Mapping[str, Any]) -> Iterator[Finding]:
    """Find ids of persons among the groups, where they open no group; only on platforms whose ids show the kind."""
    channels = _section(values, "channels")
    for path, entry in _access_entries(values):
        if "groups" not in path or entry == ANYBODY:
            continue
        try:
            identity = check_identity(with_account(str(path[1]), entry) if path[0] == "channels" else entry)
        except ValueError:
            continue  # the schema reports the fault
        account, _, native = identity.partition(":")
        platform = _section(channels, account).get("type", account)
        if isinstance(platform, str) and platform in PLATFORMS and names_group(platform, native) is False:
            yield Finding(path, "is not a group id", "copy it from /whoami in the group, with its sign or prefix")


def _access_entries(values: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    blocks: list[tuple[Path, Mapping[str, Any]]] = [(("access",), _section(values, "access"))]
    for account, channel in _section(values, "channels").items():
        blocks.append((("channels", account, "access"), _section(channel, "access")))
    for path, block in blocks:
        lists = {(*path, "allow"): block.get("allow"), (*path, "admins"): block.get("admins")}
        lists[*path, "groups", "allow"] = _section(block, "groups").get("allow")
        for place, entries in lists.items():
            for index, entry in enumerate(_listed(entries)):
                yield (*place, index), entry


def _engines(values: Mapping[str, Any]) -> Iterator[Finding]:
    for index, engine in enumerate(_listed(_section(_section(values, "web"), "search").get("engines"))):
        if isinstance(engine, dict) and _lacks_package(engine.get("use")):
            yield Finding(("web", "search", "engines", index, "use"), NOT_FOUND)


def _tools(values: Mapping[str, Any]) -> Iterator[Finding]:
    tools = [tool for tool in _listed(values.get("tools")) if isinstance(tool, dict)]
    for index, tool in enumerate(tools):
        if _lacks_package(tool.get("use")):
            yield Finding(("tools", index, "use"), NOT_FOUND)
    known = sorted({str(tool["group"]) for tool in tools if tool.get("group")})
    for index, group in enumerate(_listed(values.get("tool_groups"))):
        if group not in known:
            hint = did_you_mean(str(group), known) if known else "give the tools a group first"
            yield Finding(("tool_groups", index), "is not the group of any tool", hint)


def _subagents(values: Mapping[str, Any]) -> Iterator[Finding]:
    types = _section(_section(values, "subagents"), "types")
    for name in types:
        yield from _model(values, ("subagents", "types", name, "model"), _section(types, name).get("model"), INHERIT)


def _agents_of_servers(values: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the agents to which the tools of MCP servers are added: an unknown name would remove them from all."""
    types = _section(_section(values, "subagents"), "types")
    known = [LEAD, GENERAL_PURPOSE, BASH, *map(str, types), *RoleModels.model_fields]
    servers = _section(values, "mcp_servers")
    for server in servers:
        settings = _section(servers, server)
        hints = _section(settings, "hints")
        holders: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), settings)]
        holders += [(("hints", name), _section(hints, name)) for name in hints]
        for below, holder in holders:
            for index, agent in enumerate(_listed(holder.get("add_to_agents"))):
                if isinstance(agent, str) and agent not in known:
                    place: tuple[str | int, ...] = ("mcp_servers", server, *below, "add_to_agents", index)
                    yield Finding(place, "unknown agent", did_you_mean(agent, known))


def _research(values: Mapping[str, Any]) -> Iterator[Finding]:
    for role, model in _section(_section(values, "research"), "models").items():
        yield from _model(values, ("research", "models", role), model, INHERIT)


def _model(values: Mapping[str, Any], path: Path, model: Any, *words: str) -> Iterator[Finding]:
    """Check the name of a model, which may also be one of these words."""
    allowed = [*words, *model_names(values)]
    if isinstance(model, str) and model not in allowed:
        yield Finding(path, "unknown model", did_you_mean(model, allowed))


def _history(values: Mapping[str, Any]) -> Iterator[Finding]:
    section = _section(values, "summarization")
    most, keep = _number(section.get("max_messages", 60)), _number(section.get("keep", 20))
    if most is not None and keep is not None and keep >= most:
        yield Finding(("summarization", "keep"), "should be less than max_messages")


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else None


def _files(values: Mapping[str, Any]) -> Iterator[Finding]:
    data_dir = values.get("data_dir")
    if data_dir == "":
        yield Finding(("data_dir",), "is empty", "leave it out for ./data")
    elif isinstance(data_dir, str):
        folder = FilePath(data_dir).expanduser()
        faults = filter(None, map(_unwritable, (folder, *(folder / name for name in SHARED_FOLDERS))))
        yield from (Finding(("data_dir",), fault) for fault in islice(faults, 1))
    ca_file = _section(values, "network").get("ca_file")
    if isinstance(ca_file, str) and (fault := _no_certificates(FilePath(ca_file).expanduser())):
        yield Finding(("network", "ca_file"), fault)


def _sandbox(values: Mapping[str, Any]) -> Iterator[Finding]:
    section = _section(values, "sandbox")
    use = section.get("use", PROVIDERS[0])
    if isinstance(use, str) and ":" not in use and use not in PROVIDERS:
        yield Finding(("sandbox", "use"), "unknown provider", did_you_mean(use, (*PROVIDERS, "module:Class")))
    elif _lacks_package(use):
        yield Finding(("sandbox", "use"), "its Python package is not installed")
    for index, mount in enumerate(_listed(section.get("mounts"))):
        host = mount.get("host") if isinstance(mount, dict) else None
        if isinstance(host, str) and host.startswith("/") and not FilePath(host).is_dir():
            yield Finding(("sandbox", "mounts", index, "host"), "is not a folder on this machine")


def _unwritable(folder: FilePath) -> str | None:
    """Why the folder cannot be written to; tried with an unnamed file in the nearest existing folder."""
    existing = next(path for path in (folder, *folder.absolute().parents) if os.path.exists(path))
    if not existing.is_dir():
        return "is a file, not a folder" if existing == folder else f"cannot be created: {existing} is not a folder"
    try:
        with tempfile.TemporaryFile(dir=existing):
            return None
    except OSError as error:
        return f"cannot be written to: {os.strerror(error.errno or 0)} in {existing}"


def _no_certificates(file: FilePath) -> str | None:
    try:
        return None if b"-----BEGIN CERTIFICATE-----" in file.read_bytes() else "contains no PEM certificate"
    except OSError as error:
        return f"cannot be read: {os.strerror(error.errno or 0)}"


def _section(values: Any, key: str) -> Mapping[str, Any]:
    section = values.get(key) if isinstance(values, Mapping) else None
    return section if isinstance(section, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    """The entries of a list; [] for anything else, which the schema reports."""
    return value if isinstance(value, list) else []


def _lacks_package(use: Any) -> bool:
    """Whether a value names a class whose package is not installed."""
    form = CLASS_PATH.fullmatch(use) if isinstance(use, str) else None
    return form is not None and find_spec(form[1]) is None


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


# Models and budgets.


def model_names(values: Mapping[str, Any]) -> list[str]:
    """The names that other sections may use."""
    listed = [str(model.get("name")) for model in _listed(values.get("models")) if isinstance(model, dict)]
    return listed or ["demo"]


def check_models(values: Mapping[str, Any]) -> Iterator[Finding]:
    known = model_names(values)
    seen: dict[Any, int] = {}
    for index, model in enumerate(_listed(values.get("models"))):
        if not isinstance(model, dict):
            continue
        name = model.get("name")
        if isinstance(name, str):
            if name in seen:
                yield Finding(("models", index, "name"), f"is the same as that of models[{seen[name]}]")
            seen.setdefault(name, index)
        yield from _model_class(index, model)
        yield from _fallbacks(index, model, known)
        yield from _thinking(index, model)
        yield from _service(("models", index), model)


def check_helpers(values: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the models used outside the conversations: those for titles and memories, and the judge of skills."""
    for name, words in (("title", [SAME]), ("memory", [SAME]), ("skill_evolution", [])):
        yield from _model(values, (name, "model"), _section(values, name).get("model") or None, *words)


def _model_class(index: int, model: Mapping[str, Any]) -> Iterator[Finding]:
    use = model.get("use", "langchain_openai:ChatOpenAI")
    if use == "demo" or not isinstance(use, str):
        return
    if not model.get("model"):
        yield Finding(("models", index, "model"), "is missing: the name that the provider gives the model")
    path = ("models", index, "use")
    if CLASS_PATH.fullmatch(use) is None:
        yield Finding(path, "should be module:Class, for example langchain_openai:ChatOpenAI, or demo")
    elif _lacks_package(use):
        yield Finding(path, "its Python package is not installed", f"perhaps: {install_command(package_of(use))}")


def _service(place: Path, section: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the address and the key of a provider."""
    if section.get("api_key") == "":
        hint = "put the provider's key there, or remove the line for a server that needs none"
        yield Finding((*place, "api_key"), "is empty", hint)
    base_url = section.get("base_url")
    if isinstance(base_url, str) and (call := ONE_CALL.search(base_url)):
        hint = f"leave out the /{call[1]} at its end: Antler adds it"
        yield Finding((*place, "base_url"), "is the address of one call, not of the service", hint)


def _media_services(values: Mapping[str, Any]) -> Iterator[Finding]:
    for key in ("transcription", "speech", "images"):
        yield from _service((key,), _section(values, key))


def _fallbacks(index: int, model: Mapping[str, Any], known: Sequence[str]) -> Iterator[Finding]:
    """Check a model's fallbacks. Only the requested model's list counts, so a loop is a model that is in it twice."""
    listed, name = _listed(model.get("fallbacks")), model.get("name")
    for place, other in enumerate(listed):
        path = ("models", index, "fallbacks", place)
        if other == name:
            yield Finding(path, "is the model itself", "name another one")
        elif other in listed[:place]:
            yield Finding(path, "is listed twice")
        elif isinstance(other, str) and other not in known:
            yield Finding(path, "unknown model", did_you_mean(other, [each for each in known if each != name]))


def _thinking(index: int, model: Mapping[str, Any]) -> Iterator[Finding]:
    if model.get("supports_thinking") in (None, False):
        for key in THINKING:
            if model.get(key):
                yield Finding(("models", index, key), "has no effect without supports_thinking: true")


def check_budgets(values: Mapping[str, Any]) -> Iterator[Finding]:
    budgets = values.get("budgets")
    limits = budgets.items() if isinstance(budgets, dict) else ()
    money = [scope for scope, limit in limits if isinstance(limit, dict) and limit.get("money") is not None]
    if not money:
        return
    priced = list(_prices(values))
    if not priced:
        for scope in money:
            yield Finding(("budgets", scope, "money"), "has no effect: no model has a price", "see models[].price")
    for place, price in priced[1:]:
        first, other = (each.get("currency", "USD") for each in (priced[0][1], price))
        if first != other:
            path = (*place, "price", "currency")
            yield Finding(path, f"should be {first} like that of {dotted(priced[0][0])}: budgets count one currency")


def _prices(values: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Prices of models, pictures, speech and embeddings, with their paths in the tree."""
    priced: list[tuple[Path, Any]] = [
        (("models", index), model) for index, model in enumerate(_listed(values.get("models")))
    ]
    priced += [(("images",), values.get("images")), (("speech",), values.get("speech"))]
    for place, section in [*priced, *_embeddings(values.get("knowledge"))]:
        if isinstance(section, dict) and isinstance(section.get("price"), dict):
            yield place, section["price"]


def _embeddings(knowledge: Any) -> Iterator[tuple[Path, Any]]:
    if not isinstance(knowledge, dict):
        return
    yield ("knowledge", "embeddings"), knowledge.get("embeddings")
    for index, service in enumerate(_listed(knowledge.get("services"))):
        if isinstance(service, dict):
            yield ("knowledge", "services", index, "embeddings"), service.get("embeddings")
