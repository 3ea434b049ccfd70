"""The output of `antler check-config` for a valid config: the settings in a few lines, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bot.settings.load import agents_of
from channels.registry import OWN
from harness.agents.profiles import DEFAULT
from harness.config import SAME

if TYPE_CHECKING:
    from bot.settings.model import Settings
    from bot.settings.sections import AccessSettings

_DM = {
    "pairing": "known people (a stranger gets a code that an administrator can approve)",
    "allowlist": "known people (a stranger is shown their id)",
    "open": "EVERYONE",
}
_TERMINAL = "everyone who can use this machine as the user that Antler runs as"


def describe(settings: Settings) -> str:
    """Accounts, models, access, what the agent can reach, and where the data is stored."""
    database = "SQLite" if settings.database.url is None else "PostgreSQL"
    lines = [
        f"data      {settings.data_dir} ({database})",
        *(f"model     {model.name} ({model.model or model.use})" for model in settings.models),
    ]
    lines += [*_agents(settings), f"memory    {_memory(settings)}", f"voice     {_voice(settings)}"]
    if settings.speech is not None or settings.images is not None:
        lines.append(f"makes     {_made(settings)}")
    lines += [f"web       {_web(settings)}", *_knowledge(settings), *_tools(settings)]
    if settings.http.listen is not None:
        lines.append(f"page      {settings.http.root} (the page and the API, for people with access)")
    for account, channel in settings.channels.items():
        if account in OWN:
            continue
        lines.append(f"account   {account} ({channel.type})")
        # The terminal's lists are empty for a reason: only the operator uses it.
        at_terminal = channel.type == "console"
        lines.append(f"  access  {_TERMINAL if at_terminal else _access(settings.access_for(account), account)}")
    return "\n".join(lines)


def _agents(settings: Settings) -> list[str]:
    """The operator's own agents; Antler's is not listed."""
    found = agents_of(settings).definitions.values()
    return [f"agent     {each.name} ({settings.agents_dir / each.name})" for each in found if each.name != DEFAULT]


def _memory(settings: Settings) -> str:
    memory = settings.memory
    if not memory.enabled:
        return "nothing is remembered beyond a thread"
    where = "the database" if settings.memories_in_database else settings.data_dir / "users"
    whose = "people and groups" if memory.groups else "people; groups have none"
    learning = "each chat's model" if memory.model == SAME else memory.model or settings.models[0].name
    return f"of {whose}, in {where}; {learning} learns"


def _voice(settings: Settings) -> str:
    transcription = settings.transcription
    if transcription is None:
        return "voice messages are not transcribed (no transcription)"
    return f"{transcription.model} at {urlsplit(transcription.base_url).hostname} transcribes voice messages"


def _made(settings: Settings) -> str:
    """The services for speech and pictures."""
    told = [
        f"{maker.model} at {urlsplit(maker.base_url).hostname} {does}"
        for maker, does in ((settings.speech, "speaks"), (settings.images, "makes pictures"))
        if maker is not None
    ]
    return "; ".join(told)


def _web(settings: Settings) -> str:
    search, fetch = settings.web.search, settings.web.fetch
    engines = ", ".join(engine.use for engine in search.asked.values())
    asked = f"search: {engines}" if engines else "no search"
    if not fetch.enabled:
        return f"{asked}; pages are not read"
    opened = f", and what {len(fetch.allow)} of web.fetch.allow open" if fetch.allow else ""
    return f"{asked}; pages of the public internet are read{opened}"


def _knowledge(settings: Settings) -> list[str]:
    """The knowledge settings; nothing if it is disabled."""
    knowledge = settings.knowledge
    if not knowledge.enabled:
        return []
    by = f"words and the meaning that {knowledge.embeddings.model} sees" if knowledge.embeddings else "words"
    whose = "people and groups" if knowledge.groups else "people; groups have none of their own"
    named = [each.name for each in knowledge.folders] + [each.name for each in knowledge.services]
    everybodys = f"; for everyone: {', '.join(named)}" if named else ""
    return [f"knowledge of {whose}, found by {by}{everybodys}"]


def _tools(settings: Settings) -> list[str]:
    groups = settings.tool_groups
    return [
        f"tool      {tool.use}{f' as {tool.name}' if tool.name else ''}"
        for tool in settings.tools
        if not groups or tool.group in groups
    ]


def _access(access: AccessSettings, account: str) -> str:
    persons = _own(access.allow, account)
    groups = _own(access.groups.allow, account)
    return (
        f"DMs: {_DM[access.dm]}; {_count(persons, 'person')}, {_count(_own(access.admins, account), 'admin')}, "
        f"{_count(groups, 'group')} listed"
    )


def _own(identities: tuple[str, ...], account: str) -> list[str]:
    return [identity for identity in identities if identity == "*" or identity.startswith(f"{account}:")]


def _count(identities: list[str], noun: str) -> str:
    if "*" in identities:
        return f"EVERY {noun}"
    return f"{len(identities)} {noun}{'' if len(identities) == 1 else 's'}"
