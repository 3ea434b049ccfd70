"""What `antler check-config` prints when all is well: the settings in a few lines, no secret among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bot.settings.model import Settings
    from bot.settings.sections import AccessSettings

_DM = {
    "pairing": "known persons (a stranger gets a code that an administrator can let in)",
    "allowlist": "known persons (a stranger is told their id)",
    "open": "EVERYBODY",
}
_TERMINAL = "whoever may use this machine as the user that Antler runs as"


def describe(settings: Settings) -> str:
    """Accounts, models, access and where the data lives."""
    database = "SQLite" if settings.database.url is None else "PostgreSQL"
    lines = [
        f"data      {settings.data_dir} ({database})",
        *(f"model     {model.name} ({model.model or model.use})" for model in settings.models),
    ]
    for account, channel in settings.channels.items():
        lines.append(f"account   {account} ({channel.type})")
        # The terminal's lists are empty for a reason: it is asked by nobody but the operator.
        at_terminal = channel.type == "console"
        lines.append(f"  access  {_TERMINAL if at_terminal else _access(settings.access_for(account), account)}")
    return "\n".join(lines)


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
