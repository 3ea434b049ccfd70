"""Links, sessions and tokens on a real store, and who may write on the gateway's own accounts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from bot.access.admission import OPERATOR, AccessRules, AccountPolicy, SharedRules
from bot.access.signin import LINK_LIFE, LINKS, OWN_SCOPES, SCOPES, USED_EVERY, NoToken, SignIns
from bot.access.store import AccessStore
from bot.settings.http import HttpSettings
from bot.store import sessions
from bot.store.access import AccessRow, AccessState
from bot.store.identity import chat_of, native_on, owner_of, owns_chat, person_id
from bot.store.retrying import RetryingStore
from channels.message import Address, Sender
from tests.clock import VirtualClock

if TYPE_CHECKING:
    from bot.store import Store

ANN, BOSS, EVE = "tg:1", "tg:9", "tg:666"
RULES = AccessRules(allow=frozenset({ANN}), admins=frozenset({BOSS}))


class World:
    def __init__(self, store: Store) -> None:
        self.clock = VirtualClock()
        self.store = RetryingStore(store, self.clock)
        own = {name: AccountPolicy(SharedRules(own=name)) for name in ("web", "api")}
        self.policies = {
            "tg": AccountPolicy(RULES),
            "console": AccountPolicy(AccessRules(operator=True)),
            **own,
        }
        self.book = AccessStore(self.policies)
        self.book.load([])
        self.http = HttpSettings(listen="127.0.0.1:8642", session_days=2)
        self.signins = SignIns(self.store, self.book, lambda: self.http)

    def later(self, time: timedelta) -> None:
        self.clock._now += time.total_seconds()

    def block(self, person: str) -> None:
        row = AccessRow(
            account="tg", kind="person", subject=person, state=AccessState.BLOCKED, created_at=self.clock.now()
        )
        self.policies["tg"] = AccountPolicy(replace(RULES, allow=RULES.allow - {person}))
        self.book.adopt(row)

    async def code(self, person: str) -> str:
        link = self.signins.link(person)
        assert link is not None
        return link.rpartition("/")[2]


@pytest.fixture
async def world(store: Store) -> World:
    made = World(store)
    await made.signins.load()
    return made


async def test_a_link_is_good_once_for_ten_minutes_for_who_may_write(world: World) -> None:
    signins = world.signins
    code = await world.code(ANN)
    assert signins.is_open(code)
    assert await signins.redeem(code, "") is not None
    assert not signins.is_open(code)
    assert await signins.redeem(code, "") is None
    old = await world.code(ANN)
    world.later(LINK_LIFE)
    assert not signins.is_open(old)
    assert await signins.redeem(old, "") is None
    assert await signins.redeem(await world.code(EVE), "") is None, "a stranger"
    early = await world.code(ANN)
    world.block(ANN)
    assert await signins.redeem(early, "") is None, "shut out in between"
    world.http = HttpSettings()
    assert signins.link(BOSS) is None, "the page is off"


async def test_so_many_links_wait_and_the_oldest_are_forgotten(world: World) -> None:
    first = await world.code(ANN)
    for _ in range(LINKS):
        await world.code(ANN)
    assert not world.signins.is_open(first)


async def test_a_session_lasts_as_said_and_is_known_after_a_restart(world: World) -> None:
    cookie = await world.signins.redeem(await world.code(BOSS), "Browser " * 100)
    assert cookie is not None
    again = SignIns(world.store, world.book, lambda: world.http)
    assert again.session(cookie) is None, "not before it was read"
    await again.load()
    row = again.session(cookie)
    assert row is not None
    assert (row.person, again.scopes(row), len(row.agent)) == (BOSS, frozenset(SCOPES), 200)
    stored = await world.store.read(sessions.all_sessions)
    assert cookie not in str(stored)
    world.later(timedelta(days=2))
    assert again.session(cookie) is None
    assert not again.holds(row.id)
    assert await world.store.write(lambda tx: sessions.prune(tx, world.clock.now())) == 1


async def test_who_is_shut_out_is_so_at_once_and_all_sessions_can_be_ended(world: World) -> None:
    signins = world.signins
    cookies = [await signins.redeem(await world.code(ANN), "") for _ in range(2)]
    token, secret = await signins.make_token("mine", ["read", "admin"], ANN)
    assert signins.scopes(token) == {"read"}, "no administrator"
    waiting = await world.code(ANN)
    assert await signins.sign_out_everywhere(ANN) == 3
    assert [signins.session(cookie or "") for cookie in cookies] == [None, None]
    assert signins.token(secret) is None
    assert not signins.is_open(waiting)
    cookie = await signins.redeem(await world.code(ANN), "") or ""
    assert (row := signins.session(cookie)) is not None
    assert signins.scopes(row) == OWN_SCOPES
    world.block(ANN)
    assert signins.session(cookie) is None
    assert not signins.holds(row.id)


async def test_tokens(world: World) -> None:
    signins = world.signins
    token, secret = await signins.make_token("My Program", [], days=1)
    assert (token.person, token.scopes) == ("api:my-program", ("read", "threads", "runs"))
    assert signins.token(secret) == token
    assert signins.token(secret[:-1]) is None
    await signins.note_use(token)
    used = signins.token(secret)
    assert used is not None
    assert used.used_at == world.clock.now()
    world.later(USED_EVERY / 2)
    await signins.note_use(used)
    assert signins.token(secret) == used, "noted by the hour"
    world.later(timedelta(days=1))
    assert signins.token(secret) is None
    program, _ = await signins.make_token("ops", ["operate"])
    assert signins.scopes(program) == {"operate"}, "whoever made it is an administrator"
    for name, scopes, person in (("ops", [], ""), ("x", ["all"], ""), ("x", [], EVE), ("", [], ""), ("a\nb", [], "")):
        with pytest.raises(NoToken):
            await signins.make_token(name, scopes, person)
    assert await signins.revoke("ops")
    assert not await signins.revoke("ops")


def test_a_person_of_another_account_stays_that_person() -> None:
    for account in ("web", "api"):
        assert person_id(account, native_on(account, ANN)) == ANN
        assert person_id(account, native_on(account, f"{account}:x")) == f"{account}:x"
        address = Address(account=account, chat=chat_of(ANN, "x"))
        assert owner_of(address, Sender(id=native_on(account, ANN), display_name=""), "") == ANN
    assert person_id("tg", "1:2") == "tg:1:2"
    assert owns_chat(ANN, chat_of(ANN, "x"))
    assert not owns_chat(EVE, chat_of(ANN, "x"))


def test_rules_of_own_accounts_ask_those_of_the_others(store: Store) -> None:
    world = World(store)
    web, api = world.book.policy("web").access, world.book.policy("api").access

    def speaks(rules: AccessRules, account: str, person: str, kind: str = "dm") -> bool:
        address = Address(account=account, chat="x", kind="group" if kind == "group" else "dm")
        return rules.may_speak(address, Sender(id=native_on(account, person), display_name=""))

    assert [speaks(web, "web", person) for person in (ANN, BOSS, EVE, OPERATOR, "console:local")] == [
        True, True, False, True, True,
    ]  # fmt: skip
    assert not speaks(web, "web", ANN, "group")
    assert not speaks(web, "web", "web:somebody"), "nobody else is of that account"
    assert not speaks(web, "web", "gone:1")
    assert speaks(api, "api", "api:program")
    assert [web.is_admin(person) for person in (ANN, BOSS, OPERATOR)] == [False, True, True]
    assert not any(api.is_admin(person) for person in (ANN, BOSS, OPERATOR, "api:program")), "scopes say it there"
    world.block(ANN)
    assert not speaks(world.book.policy("web").access, "web", ANN)
    trusting = SharedRules(own="api", admins_only=True)
    assert not trusting.admits("api:program"), "on the host itself only administrators are heard"
    assert world.book.has_admin("web"), "no claim code is printed for it"


async def test_nobody_is_let_in_before_it_is_known_who_was_shut_out(store: Store) -> None:
    world = World(store)
    world.book = AccessStore(world.policies)
    signins = SignIns(world.store, world.book, lambda: world.http)
    assert not signins.admits(ANN)
    assert not signins.admits(OPERATOR)
