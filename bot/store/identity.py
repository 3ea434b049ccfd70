"""Ids and names of persons, conversations, owners, folders and files: the only place that builds them."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Literal
from unicodedata import category, normalize

from channels.message import Address
from channels.registry import OWN

if TYPE_CHECKING:
    from pathlib import Path

    from channels.message import Sender

HOOK = "hook:"
"""Prefix of the native id under which a webhook speaks in a group. No platform assigns ids of this form."""
NAME_BYTES = 160
"""File systems allow 255 bytes; a random prefix needs a few."""

GroupScope = Literal["chat", "speaker"]


OWN_ACCOUNTS = OWN
"""The accounts of the gateway's own HTTP service. Their users may be persons of another account: then the person's
whole id takes the place of a native one."""


def person_id(account: str, native_id: str) -> str:
    """Return `account:native id`, an exact string; the same number on two platforms is two persons.

    On the gateway's own accounts, a person of another account stays that person.
    """
    if account in OWN_ACCOUNTS and ":" in native_id:
        return native_id
    return f"{account}:{native_id}"


def native_on(account: str, person: str) -> str:
    """Return a person's native id on one of the gateway's own accounts, the reverse of person_id."""
    return person.removeprefix(f"{account}:")


def chat_of(person: str, name: str) -> str:
    """Return the chat id of a person's conversation on the gateway's own accounts; unique to that person."""
    return f"{folder_name(person)[:16]}-{name}"


def owns_chat(person: str, chat: str) -> bool:
    """Whether `chat_of` built the id for that person."""
    return chat.startswith(f"{folder_name(person)[:16]}-")


def uploads_folder(person: str) -> str:
    """The folder of a person's uploads below users_folder, so that they are deleted with the person's other data."""
    return f"{folder_name(person)}/http"


def hook_sender(name: str) -> str:
    """The native id under which a webhook speaks in a group."""
    return HOOK + name


def chat_id(address: Address) -> str:
    """Return `account:chat`, the form used in `access.groups.allow`."""
    return f"{address.account}:{address.chat}"


def conversation_key(address: Address, sender: Sender, scope: GroupScope) -> str:
    """Return `account:chat[/topic][@speaker]`, with the speaker if each person in a group has a separate conversation.

    The separators are quoted in the platform's ids, so that no two conversations ever share a key.
    """
    key = f"{address.account}:{_quoted(address.chat)}"
    if address.topic is not None:
        key += f"/{_quoted(address.topic)}"
    if address.kind != "dm" and scope == "speaker":
        key += f"@{_quoted(sender.id)}"
    return key


def direct_address(key: str) -> Address:
    """Return the address of the conversation with that key, if it is a person's own conversation."""
    account, _, rest = key.partition(":")
    chat, slash, topic = rest.partition("/")
    return Address(account=account, chat=_plain(chat), topic=_plain(topic) if slash else None)


def is_in_chat(key: str, group: str) -> bool:
    """Whether a conversation is in the group `account:chat`, including its topics and single speakers."""
    account, _, chat = group.partition(":")
    return moved_key(key, account, chat, chat) is not None


def is_speakers(key: str, person: str) -> bool:
    """Whether a conversation is in a group but belongs to this speaker only."""
    account, _, native = person.partition(":")
    return key.startswith(f"{account}:") and key.endswith(f"@{_quoted(native)}")


def moved_key(key: str, account: str, old_chat: str, new_chat: str) -> str | None:
    """Return a conversation's key after its chat got a new id; None if it is in another chat."""
    old = f"{account}:{_quoted(old_chat)}"
    rest = key.removeprefix(old)
    if not key.startswith(old) or (rest and rest[0] not in "/@"):
        return None
    return f"{account}:{_quoted(new_chat)}{rest}"


def _quoted(native_id: str) -> str:
    return native_id.replace("%", "%25").replace("/", "%2F").replace("@", "%40")


def _plain(quoted: str) -> str:
    return quoted.replace("%40", "@").replace("%2F", "/").replace("%25", "%")


def owner_of(address: Address, sender: Sender, conversation: str) -> str:
    """Return the owner of a conversation's memory and files: the person in a DM, the conversation in a group."""
    return person_id(address.account, sender.id) if address.kind == "dm" else conversation


def folder_name(identity: str) -> str:
    """Return a safe folder name for any id, however hostile: base32 of its sha256, lower case."""
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest).decode().rstrip("=").lower()


def users_folder(data_dir: Path) -> Path:
    """The parent of the owners' folders, each named by `folder_name`."""
    return data_dir / "users"


def thread_folder(data_dir: Path, thread_id: str) -> Path:
    """The folder of a thread's files: `user-data/{workspace,uploads,outputs}` below the thread's own folder."""
    return data_dir / "threads" / folder_name(thread_id) / "user-data"


def sources_folder(data_dir: Path, thread_id: str) -> Path:
    """The folder of the pages that a thread's runs have read; commands cannot access it."""
    return thread_folder(data_dir, thread_id).with_name("sources")


def harmless_name(declared: str, otherwise: str) -> str:
    """Return a file name without path, control characters or leading dot or dash, at most NAME_BYTES long.

    otherwise: used if nothing is left of the name.
    """
    declared = declared.replace("\\", "/").rsplit("/", 1)[-1].split("\0", 1)[0]
    name = "".join(char if _is_harmless(char) else "_" for char in normalize("NFC", declared)).rstrip(" .-_")
    stem, dot, suffix = name.rpartition(".")
    if stem and len(suffix.encode()) <= 10:
        return (_cut(stem.lstrip(" .-_"), NAME_BYTES - 11) or otherwise) + dot + suffix
    # As short as a name with a suffix, so that the function is idempotent.
    return _cut(name.lstrip(" .-_"), NAME_BYTES - 11).rstrip(" .-_") or otherwise


def _is_harmless(char: str) -> bool:
    """Whether a character may stand in a file's name: letters with their marks, digits, little else."""
    return char.isalnum() or char in "_.()+ -" or (category(char) in {"Mn", "Mc"} and not "\ufe00" <= char <= "\ufe0f")


def _cut(name: str, size: int) -> str:
    return name.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
