"""Names of persons, conversations and folders, whatever ids a platform hands out."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bot.store.identity import chat_id, conversation_key, folder_name, owner_of, person_id, thread_folder
from channels.message import Address, Sender

HOSTILE = [
    *("../bob", "a/b", "%2e%2e", "x" * 300, "CON", "\0", "..", ".", "-rf", "Bob", "bob", "BOB", " bob"),
    *("caf\u00e9", "cafe\u0301", "\ud800", "\u202ebob", "T1/U1", "a@b", "a%40b"),
]

ids = st.text(max_size=20)


def sender(native_id: str) -> Sender:
    return Sender(id=native_id, display_name="")


def test_every_hostile_id_has_a_harmless_folder_of_its_own() -> None:
    folders = {folder_name(identity) for identity in HOSTILE}
    assert len(folders) == len(HOSTILE)
    assert all(re.fullmatch(r"[a-z2-7]{52}", folder) for folder in folders)


def test_a_threads_folder_stays_inside_the_data_folder() -> None:
    data = Path("data")
    for identity in HOSTILE:
        folder = thread_folder(data, identity)
        assert folder.parts[:2] == ("data", "threads")
        assert folder.name == "user-data"
        assert len(folder.parts) == 4


def test_the_same_number_on_two_accounts_is_two_persons() -> None:
    assert person_id("telegram", "7") != person_id("feishu", "7")


def test_names_follow_the_documented_forms() -> None:
    dm = Address(account="telegram", chat="7")
    group = Address(account="telegram", chat="-100", topic="3", kind="group")
    assert conversation_key(dm, sender("7"), "speaker") == "telegram:7"
    assert conversation_key(group, sender("7"), "chat") == "telegram:-100/3"
    assert conversation_key(group, sender("7"), "speaker") == "telegram:-100/3@7"
    assert chat_id(group) == "telegram:-100"
    assert owner_of(dm, sender("7"), "telegram:7") == "telegram:7"
    assert owner_of(group, sender("7"), "telegram:-100/3") == "telegram:-100/3"


@given(st.lists(st.tuples(ids, st.none() | ids, ids, st.sampled_from(["chat", "speaker"])), min_size=2, max_size=2))
def test_no_two_group_conversations_share_a_key(places: list[tuple[str, str | None, str, str]]) -> None:
    keys, meant = [], []
    for chat, topic, speaker, scope in places:
        address = Address(account="a", chat=chat, topic=topic, kind="group")
        keys.append(conversation_key(address, sender(speaker), scope))  # type: ignore[arg-type]
        meant.append((chat, topic, speaker if scope == "speaker" else None))
    assert (keys[0] == keys[1]) is (meant[0] == meant[1])
