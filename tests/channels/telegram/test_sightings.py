"""Where a lost message may be: whatever else is written meanwhile, the search comes to it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.errors import OutcomeUnknown
from channels.telegram.sightings import AHEAD, MAX_PROBES, Sightings

ME = "1"
CHATS = (ME, "2", "-5")
"""All of them counted together."""

writers = st.lists(st.tuples(st.sampled_from(CHATS), st.booleans()), max_size=40)


@dataclass
class Platform:
    """Gives ids, and shows each message at once, later or never."""

    sightings: Sightings
    newest: int = 100
    ours: set[int] = field(default_factory=set)

    def write(self, chat: str, *, seen: bool) -> int:
        self.newest += 1
        if seen:
            self.sightings.see(chat, self.newest)
        return self.newest


async def look(sightings: Sightings, platform: Platform) -> tuple[int | None, int]:
    """Look until it can be told: what was found, and how many questions that took."""
    questions = 0

    async def accepts(candidate: int) -> bool:
        nonlocal questions
        questions += 1
        return candidate in platform.ours

    while True:
        try:
            return await sightings.find("k", ME, None, accepts), questions
        except OutcomeUnknown:
            assert questions % MAX_PROBES == 0


@given(before=writers, after=writers)
def test_it_is_found_with_one_question_for_each_message_that_was_not_seen(
    before: list[tuple[str, bool]], after: list[tuple[str, bool]]
) -> None:
    sightings = Sightings()
    platform = Platform(sightings)
    sightings.see(ME, platform.newest)
    known = sightings.newest(ME)
    for chat, seen in before:
        platform.write(chat, seen=seen)
    lost = platform.write(ME, seen=False)
    platform.ours.add(lost)
    sightings.lost("k", ME, known)
    for chat, seen in after:
        platform.write(chat, seen=seen)
    found, questions = asyncio.run(look(sightings, platform))
    hidden = sum(not seen for _, seen in before)
    top = sightings.newest(ME)
    assert top is not None
    if lost <= top + AHEAD:
        assert (found, questions) == (lost, hidden + 1)
    else:
        assert found is None


@given(meanwhile=writers)
def test_what_was_not_there_yet_is_found_by_the_next_search(meanwhile: list[tuple[str, bool]]) -> None:
    sightings = Sightings()
    platform = Platform(sightings)
    sightings.see(ME, platform.newest)
    sightings.lost("k", ME, sightings.newest(ME))
    assert asyncio.run(look(sightings, platform)) == (None, AHEAD)
    for chat, _ in meanwhile:
        platform.write(chat, seen=True)
    lost = platform.write(ME, seen=False)
    platform.ours.add(lost)
    assert asyncio.run(look(sightings, platform)) == (lost, 1)


async def test_a_repeat_does_not_narrow_the_search() -> None:
    sightings = Sightings()
    platform = Platform(sightings, ours={11})
    sightings.lost("k", ME, 10)
    sightings.see(ME, 20)
    sightings.lost("k", ME, 20)
    assert await look(sightings, platform) == (11, 1)


def test_a_supergroup_counts_by_itself() -> None:
    sightings = Sightings()
    sightings.see("-1001", 500)
    sightings.see(ME, 7)
    assert sightings.newest("-1001") == 500
    assert sightings.newest("2") == 7
    assert sightings.newest("-1002") is None


async def test_what_is_remembered_is_bounded() -> None:
    sightings = Sightings()
    for number in range(30_000):
        sightings.see(f"-100{number}", number)
        sightings.lost(f"k{number}", ME, number)
    assert sightings.newest("-1000") is None
    with pytest.raises(OutcomeUnknown):
        await sightings.find("k0", ME, None, platform_refuses)


async def platform_refuses(candidate: int) -> bool:
    return False


def test_a_group_that_moved_counts_anew() -> None:
    sightings = Sightings()
    sightings.see("-1001", 50_000)  # recalled under the new name, from before it moved
    sightings.sent("k", "-1001", 3, sightings.newest("-1001"))
    assert sightings.newest("-1001") == 3


async def test_an_answered_repeat_ends_the_search() -> None:
    sightings = Sightings()
    sightings.lost("k", ME, 10)
    sightings.sent("k", ME, 12, 11)
    with pytest.raises(OutcomeUnknown):
        await sightings.find("k", ME, None, platform_refuses)
