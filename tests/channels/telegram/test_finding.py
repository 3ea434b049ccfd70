"""Over the wire: a send whose answer was lost is found again, by asking as little as possible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from channels.base import Part, Probe
from channels.errors import OutcomeUnknown, RateLimited, Temporary
from channels.message import Address, OutboundMessage
from channels.telegram.sightings import MAX_PROBES
from tests.channels.telegram.support import new_group
from tests.simulators.telegram import faults
from tests.simulators.telegram.seen import ALICE, BOB, Person

if TYPE_CHECKING:
    from tests.channels.telegram.support import Bench

DM = Address(account="telegram", chat=str(ALICE.id))


def part_of(bench: Bench, text: str) -> Part:
    (part,) = bench.channel.layout(OutboundMessage(text=text, final=True))
    return part


async def lose(bench: Bench, text: str, key: str, place: Address = DM) -> None:
    """Send something that arrives, and whose answer does not."""
    await bench.telegram.fail("sendMessage", faults.reset(apply=True))
    with pytest.raises(OutcomeUnknown):
        await bench.channel.send(place, part_of(bench, text), key)


async def texts(bench: Bench, person: Person = ALICE) -> list[str]:
    return [seen.text for seen in await bench.telegram.bot_messages(person)]


async def probes(bench: Bench) -> int:
    return len(await bench.telegram.records("editMessageText"))


async def test_a_send_whose_answer_was_lost_is_found_among_what_others_wrote(bench: Bench) -> None:
    await bench.telegram.user_says("hi")
    async with bench.running():
        await bench.gateway.event(0)
        await bench.channel.send(DM, part_of(bench, "of another run"), "k0")
        await lose(bench, "thinking", "k1")
        for number in range(20):
            await bench.telegram.user_says(f"more {number}", user=(ALICE, BOB)[number % 2])
        await bench.gateway.event(20)
        await bench.channel.send(Address(account="telegram", chat=str(BOB.id)), part_of(bench, "to Bob"), "k2")
        found = await bench.channel.find(DM, part_of(bench, "the answer"), Probe(idem_key="k1", after=None))
    assert await texts(bench) == ["of another run", "the answer"]
    assert found == str((await bench.telegram.bot_messages(ALICE))[1].message_id)
    assert await probes(bench) == 1


async def test_lost_sends_to_two_people_are_not_mixed_up(bench: Bench) -> None:
    bob = Address(account="telegram", chat=str(BOB.id))
    said = [await bench.telegram.user_says("hi", user=person) for person in (ALICE, BOB)]
    bench.channel.recall([(DM.chat, str(said[0].message_id)), (bob.chat, str(said[1].message_id))])
    await lose(bench, "to Alice", "a")
    await lose(bench, "to Bob", "b", bob)
    assert await bench.channel.find(bob, part_of(bench, "Bob's"), Probe(idem_key="b", after=None)) is not None
    assert await bench.channel.find(DM, part_of(bench, "Alice's"), Probe(idem_key="a", after=None)) is not None
    assert (await texts(bench), await texts(bench, BOB)) == (["Alice's"], ["Bob's"])


async def test_a_group_counts_its_messages_itself(bench: Bench) -> None:
    team = new_group()
    group = Address(account="telegram", chat=str(team.id), kind="group")
    first = await bench.telegram.group_says("hi", chat=team)
    for _ in range(10):
        await bench.telegram.user_says("elsewhere")
    bench.channel.recall([(DM.chat, "10"), (group.chat, str(first.message_id))])
    await lose(bench, "thinking", "k", group)
    found = await bench.channel.find(group, part_of(bench, "the answer"), Probe(idem_key="k", after=None))
    assert found == str(first.message_id + 1)


async def test_a_probe_that_fails_is_asked_again(bench: Bench) -> None:
    said = await bench.telegram.user_says("hi")
    bench.channel.recall([(DM.chat, str(said.message_id))])
    await lose(bench, "thinking", "k")
    for fault in (faults.reset(apply=True), faults.bad_gateway(), faults.garbage(apply=True), faults.flood(9)):
        await bench.telegram.fail("editMessageText", fault)
        with pytest.raises(Temporary):
            await bench.channel.find(DM, part_of(bench, "the answer"), Probe(idem_key="k", after=None))
    found = await bench.channel.find(DM, part_of(bench, "the answer"), Probe(idem_key="k", after=None))
    assert found == str(said.message_id + 1)
    assert await texts(bench) == ["the answer"]


async def test_a_search_goes_on_where_a_flood_interrupted_it(bench: Bench) -> None:
    said = await bench.telegram.user_says("hi")
    await bench.telegram.fail("editMessageText", faults.flood(9), skip=2)
    probe = Probe(idem_key="k", after=str(said.message_id))
    with pytest.raises(RateLimited):
        await bench.channel.find(DM, part_of(bench, "x"), probe)
    assert await bench.channel.find(DM, part_of(bench, "x"), probe) is None
    asked = [record.params["message_id"] for record in await bench.telegram.records("editMessageText")]
    assert [int(number) - said.message_id for number in asked] == [1, 2, 3, 3, 4]


async def test_a_send_that_is_applied_late_is_found_by_the_next_search(bench: Bench) -> None:
    said = await bench.telegram.user_says("hi")
    probe = Probe(idem_key="k", after=str(said.message_id))
    assert await bench.channel.find(DM, part_of(bench, "x"), probe) is None
    await lose(bench, "thinking", "k")
    assert await bench.channel.find(DM, part_of(bench, "the answer"), probe) == str(said.message_id + 1)


async def test_where_too_many_messages_are_unknown_it_says_so_and_asks_for_the_rest_later(bench: Bench) -> None:
    said = await bench.telegram.user_says("hi")
    for number in range(10):
        newest = await bench.telegram.user_says(f"not seen {number}")
    bench.channel.recall([(DM.chat, str(newest.message_id))])
    await bench.channel.send(DM, part_of(bench, "thinking"), "elsewhere")  # by another process, as far as we know
    probe = Probe(idem_key="k", after=str(said.message_id))
    with pytest.raises(OutcomeUnknown):
        await bench.channel.find(DM, part_of(bench, "x"), probe)
    assert await probes(bench) == MAX_PROBES
    assert await bench.channel.find(DM, part_of(bench, "x"), probe) is None


async def test_without_any_older_message_nothing_is_asked(bench: Bench) -> None:
    await bench.telegram.user_says("hi")
    with pytest.raises(OutcomeUnknown):
        await bench.channel.find(DM, part_of(bench, "x"), Probe(idem_key="k", after=None))
    assert await probes(bench) == 0


async def test_content_that_telegram_refuses_tells_nothing(bench: Bench) -> None:
    said = await bench.telegram.user_says("hi")
    await bench.telegram.fail("editMessageText", faults.bad_request("ENTITY_BOUNDS_INVALID"))
    with pytest.raises(OutcomeUnknown):
        await bench.channel.find(DM, part_of(bench, "x"), Probe(idem_key="k", after=str(said.message_id)))
