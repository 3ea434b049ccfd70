"""Names of persons, conversations, owners, folders and files: the only place that builds them."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Literal

from channels.message import Address
from channels.registry import OWN

if TYPE_CHECKING:
    from pathlib import Path

    from channels.message import Sender

HOOK = "hook:"
"""What the native id begins with under which a webhook speaks in a group. No platform gives an id of this form."""
NAME_BYTES = 160
"""File systems take 255 bytes; a random prefix needs a few."""

GroupScope = Literal["chat", "speaker"]


OWN_ACCOUNTS = OWN
"""The accounts of the gateway's own HTTP service. Who writes there may be a person of another account: then that
person's whole id stands in the place of a native one."""


def person_id(account: str, native_id: str) -> str:
    """`account:native id`, an exact string; two platforms with the same number are two persons.

    On the gateway's own accounts a person of another account stays that person.
    """
    if account in OWN_ACCOUNTS and ":" in native_id:
        return native_id
    return f"{account}:{native_id}"


def native_on(account: str, person: str) -> str:
    """The id by which a person is called on one of the gateway's own accounts: person_id gives the person back."""
    return person.removeprefix(f"{account}:")


def chat_of(person: str, name: str) -> str:
    """The chat of one of a person's conversations on the gateway's own accounts: nobody else's has that id."""
    return f"{folder_name(person)[:16]}-{name}"


def owns_chat(person: str, chat: str) -> bool:
    """Whether chat_of made the id for that person."""
    return chat.startswith(f"{folder_name(person)[:16]}-")


def uploads_folder(person: str) -> str:
    """Where a person's uploads are, below users_folder, so that they go with all that is theirs."""
    return f"{folder_name(person)}/http"


def hook_sender(name: str) -> str:
    """The native id under which a webhook speaks in a group."""
    return HOOK + name


def chat_id(address: Address) -> str:
    """`account:chat`: what `access.groups.allow` lists."""
    return f"{address.account}:{address.chat}"


def conversation_key(address: Address, sender: Sender, scope: GroupScope) -> str:
    """`account:chat[/topic][@speaker]`; the speaker where each person in a group has a conversation of their own.

    The marks are quoted where the platform's own ids hold them, so that no two conversations ever share a key.
    """
    key = f"{address.account}:{_quoted(address.chat)}"
    if address.topic is not None:
        key += f"/{_quoted(address.topic)}"
    if address.kind != "dm" and scope == "speaker":
        key += f"@{_quoted(sender.id)}"
    return key


def direct_address(key: str) -> Address:
    """Where the conversation with that key is, when it is a person's own."""
    account, _, rest = key.partition(":")
    chat, slash, topic = rest.partition("/")
    return Address(account=account, chat=_plain(chat), topic=_plain(topic) if slash else None)


def is_in_chat(key: str, group: str) -> bool:
    """Whether a conversation is in the group `account:chat`, in one of its topics or of one of its speakers."""
    account, _, chat = group.partition(":")
    return moved_key(key, account, chat, chat) is not None


def is_speakers(key: str, person: str) -> bool:
    """Whether a conversation is one in a group that only this person speaks in."""
    account, _, native = person.partition(":")
    return key.startswith(f"{account}:") and key.endswith(f"@{_quoted(native)}")


def moved_key(key: str, account: str, old_chat: str, new_chat: str) -> str | None:
    """A conversation's key after its chat got a new id; None when it is another chat's."""
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
    """Whose memory and files a conversation uses: the person's in a DM, the conversation's in a group."""
    return person_id(address.account, sender.id) if address.kind == "dm" else conversation


def folder_name(identity: str) -> str:
    """A folder name for any id, however hostile: base32 of its sha256, lower case."""
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).digest()
    return base64.b32encode(digest).decode().rstrip("=").lower()


def users_folder(data_dir: Path) -> Path:
    """Where owners have folders of their own, each by the name that `folder_name` gives it."""
    return data_dir / "users"


def thread_folder(data_dir: Path, thread_id: str) -> Path:
    """Where a thread's files live: `user-data/{workspace,uploads,outputs}` below the thread's own folder."""
    return data_dir / "threads" / folder_name(thread_id) / "user-data"


def sources_folder(data_dir: Path, thread_id: str) -> Path:
    """Where the pages are kept that a thread's runs have read; commands do not reach it."""
    return thread_folder(data_dir, thread_id).with_name("sources")


def harmless_name(declared: str, otherwise: str) -> str:
    """A file name without path, control characters or leading dot or dash, at most NAME_BYTES long.

    otherwise: used where nothing is left of it.
    """
    declared = declared.replace("\\", "/").rsplit("/", 1)[-1]
    name = re.sub(r"[^\w.()+ -]", "_", declared.split("\0", 1)[0]).strip(" .-_")
    stem, dot, suffix = name.rpartition(".")
    if dot and len(suffix.encode()) <= 10:
        return (_cut(stem, NAME_BYTES - 11) or otherwise) + dot + suffix
    # As short as one with an ending, so that the name of a name is that name.
    return _cut(name, NAME_BYTES - 11).rstrip(" .-_") or otherwise


def _cut(name: str, size: int) -> str:
    return name.encode("utf-8", "replace")[:size].decode("utf-8", "ignore")
