"""Who was let in, as it is kept."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.store import Store, access, accounts
from bot.store.access import AccessRow, AccessState
from tests.bot.store.samples import NOW

if TYPE_CHECKING:
    from bot.store.access import SubjectKind


def row(subject: str = "telegram:7", kind: SubjectKind = "person", **more: object) -> AccessRow:
    made = AccessRow(
        account="telegram",
        kind=kind,
        subject=subject,
        state=AccessState.PENDING,
        name="Eve",
        chat="7",
        language="zh",
        code_hash="h1",
        created_at=NOW,
        expires_at=NOW + timedelta(minutes=10),
    )
    return replace(made, **more)  # type: ignore[arg-type]


async def test_a_row_takes_the_place_of_what_was_known_of_its_subject(store: Store) -> None:
    paired = row(state=AccessState.PAIRED, code_hash=None, expires_at=None, decided_at=NOW, decided_by="telegram:1")
    group = row(kind="group", created_at=NOW + timedelta(seconds=1))
    for written in (row(), group, paired):
        await store.write(lambda tx, written=written: access.put(tx, written))  # type: ignore[misc]  # mypy has no type for a lambda's default
    assert await store.read(access.everything) == [paired, group]


@pytest.mark.parametrize("subject", ["telegram:\0", "telegram:\ud800", "telegram:' OR 1=1 --", "telegram:" + "x" * 999])
async def test_hostile_ids_and_names_are_just_text(store: Store, subject: str) -> None:
    await store.write(lambda tx: access.put(tx, row(subject, name=subject)))
    assert len(await store.read(access.everything)) == 1


async def test_a_subject_is_forgotten_only_with_the_code_that_was_meant(store: Store) -> None:
    old, new = row(), row(code_hash="h2")
    await store.write(lambda tx: access.put(tx, new))
    await store.write(lambda tx: access.remove(tx, old, old.code_hash))
    assert await store.read(access.everything) == [new]
    await store.write(lambda tx: access.remove(tx, new, new.code_hash))
    assert await store.read(access.everything) == []


async def test_a_renamed_account_keeps_whom_it_let_in(store: Store) -> None:
    await store.write(lambda tx: accounts.bind(tx, "telegram", "telegram", "1", NOW))
    await store.write(lambda tx: access.put(tx, row(decided_by="telegram:1")))
    await store.write(lambda tx: accounts.rename(tx, "telegram", "editor"))
    (kept,) = await store.read(access.everything)
    assert (kept.account, kept.subject, kept.decided_by) == ("editor", "editor:7", "editor:1")
