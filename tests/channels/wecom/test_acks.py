"""To which frame an ack belongs, when earlier ones of the same req_id came late or never."""

from __future__ import annotations

import asyncio

import pytest

from channels.errors import OutcomeUnknown
from channels.wecom.connection import Acks
from channels.wecom.frames import Ack

OK = Ack(req_id="r", errcode=0, body={"n": 1})
LATER = Ack(req_id="r", errcode=0, body={"n": 2})
CONFLICT = Ack(req_id="r", errcode=6000)


def unanswered(acks: Acks) -> None:
    acks.forget("r", acks.expect("r"))


async def test_an_ack_is_given_to_who_waits_for_it() -> None:
    acks = Acks(doubt=60)
    mine, other = acks.expect("r"), acks.expect("s")
    acks.arrived(OK)
    assert await mine == OK
    assert not other.done()


async def test_an_ack_that_came_too_late_is_not_taken_for_the_next() -> None:
    acks = Acks(doubt=60)
    unanswered(acks)
    mine = acks.expect("r")
    acks.arrived(OK)
    await asyncio.sleep(0)
    assert not mine.done(), "it may be the late one"
    acks.arrived(CONFLICT)
    assert await mine == CONFLICT


async def test_the_second_success_is_the_newest_frames() -> None:
    acks = Acks(doubt=60)
    unanswered(acks)
    mine = acks.expect("r")
    acks.arrived(OK)
    acks.arrived(LATER)
    assert await mine == LATER


async def test_where_the_missing_ack_never_comes_a_success_is_believed_after_a_while() -> None:
    acks = Acks(doubt=0.01)
    unanswered(acks)
    mine = acks.expect("r")
    acks.arrived(OK)
    assert await asyncio.wait_for(mine, 10) == OK


async def test_a_refusal_is_the_newest_frames_and_the_late_ack_behind_it_nobodys() -> None:
    acks = Acks(doubt=60)
    unanswered(acks)
    mine = acks.expect("r")
    acks.arrived(CONFLICT)
    assert await mine == CONFLICT
    acks.arrived(OK)
    again = acks.expect("r")
    acks.arrived(LATER)
    assert await again == LATER


async def test_at_the_end_everybody_hears_of_it() -> None:
    acks = Acks(doubt=60)
    mine = acks.expect("r")
    acks.fail_all(OutcomeUnknown("over"))
    with pytest.raises(OutcomeUnknown, match="over"):
        await mine
