"""Usage: what calls cost is kept with who paid, survives a crash in mid-run, and /usage tells it."""

from __future__ import annotations

import io
import stat
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from bot.store import runs, usage
from bot.store.retrying import RetryingStore
from bot.store.run_events import StoreRunLedger
from bot.texts.en import EN
from bot.texts.zh import ZH
from bot.usage.charts import HEIGHT, WIDTH, Bar, bars_picture
from bot.usage.days import Days
from bot.usage.meter import cost
from bot.usage.report import money, short
from harness.config import PriceSettings
from harness.events import Usage
from tests.bot.core import ANN, BOB, Core, core
from tests.clock import VirtualClock
from tests.tables import table

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from bot.store.usage import Spent
    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

PRICES = {"sim": PriceSettings(input=2, output=8, cached=0.5)}
DAY = 86_400


async def spent(c: Core, **wanted: Any) -> Spent:
    found: Spent = await c.store.read(lambda tx: usage.spent(tx, **wanted))
    return found


async def shown(c: Core, text: str = "/usage", person: str = ANN, **more: Any) -> str:
    """The answer to a command."""
    chat = more.get("chat") or person
    before = len(c.texts(chat))
    await c.say(text, person, **more)
    await c.answered()
    return "\n".join(c.texts(chat)[before:])


def used(read: int, written: int, cached: int = 0) -> Any:
    return lambda tell: tell(Usage, model="sim", input_tokens=read, output_tokens=written, cached_tokens=cached)


# Prices, numbers, days.


@pytest.mark.parametrize(
    ("price", "tokens", "expected"),
    [
        (PriceSettings(input=2, output=8), (1_000_000, 0, 0), 2_000_000_000),
        (PriceSettings(input=2, output=8), (0, 1_000_000, 0), 8_000_000_000),
        (PriceSettings(input=2, output=8), (10, 10, 10), 100_000),
        (PriceSettings(input=2, output=8, cached=0.5), (10, 0, 4), 14_000),
        (PriceSettings(input=2, output=8, cached=0), (10, 0, 99), 0),
        (PriceSettings(input=0, output=0), (10, 10, 0), 0),
    ],
)
def test_what_a_call_costs(price: PriceSettings, tokens: tuple[int, int, int], expected: int) -> None:
    read, written, cached = tokens
    call = Usage(run_id="r", seq=1, model="m", input_tokens=read, output_tokens=written, cached_tokens=cached)
    assert cost(call, price) == expected


@table(
    ("number", "expected"),
    [
        *((0, "0"), (999, "999"), (1000, "1.00k"), (9994, "9.99k"), (12_345, "12.3k"), (128_000, "128k")),
        *((999_949, "1.00M"), (1_234_567, "1.23M"), (99_960_000, "100M"), (2_500_000_000, "2.50G")),
    ],
)
def test_numbers_in_few_characters(number: int, expected: str) -> None:
    assert short(number) == expected


@given(st.integers(min_value=0, max_value=10**12))
def test_any_number_is_short_and_about_right(number: int) -> None:
    text = short(number)
    unit = {"k": 10**3, "M": 10**6, "G": 10**9}.get(text[-1], 1)
    assert len(text) <= 5
    assert abs(float(text.rstrip("kMG")) * unit - number) <= max(number * 0.006, 0.5)


@pytest.mark.parametrize(
    ("nano", "expected"),
    [(0, "0.00 USD"), (14_000, "0.0000 USD"), (123_400_000, "0.1234 USD"), (12_300_000_000, "12.30 USD")],
)
def test_money_for_people(nano: int, expected: str) -> None:
    assert money(nano, "USD") == expected


class Still(VirtualClock):
    """A clock that stands at a moment."""

    def __init__(self, moment: datetime) -> None:
        super().__init__()
        self._moment = moment

    def now(self) -> datetime:
        return self._moment


@pytest.mark.parametrize(
    ("zone", "moment", "today", "left"),
    [
        ("UTC", datetime(2026, 1, 1, 23, tzinfo=UTC), date(2026, 1, 1), 3600),
        ("Asia/Shanghai", datetime(2026, 1, 1, 16, tzinfo=UTC), date(2026, 1, 2), DAY),
        ("America/Los_Angeles", datetime(2026, 1, 1, 7, tzinfo=UTC), date(2025, 12, 31), 3600),
        # The clocks change: a day of 23 hours, one of 25.
        ("Europe/Berlin", datetime(2026, 3, 28, 23, tzinfo=UTC), date(2026, 3, 29), 23 * 3600),
        ("Europe/Berlin", datetime(2026, 10, 24, 22, tzinfo=UTC), date(2026, 10, 25), 25 * 3600),
    ],
)
def test_days_are_the_people_s(zone: str, moment: datetime, today: date, left: int) -> None:
    days = Days(ZoneInfo(zone), Still(moment))
    assert (days.today, days.left, days.zone) == (today, left, zone)
    assert days.starts(today) <= moment


# The picture.


def test_the_chart_is_a_small_picture_with_a_ground_of_its_own() -> None:
    data = bars_picture([Bar("01-01", 0, "0"), Bar("01-02", 10, "10", part=5), Bar("01-03", 3, "3")])
    picture = Image.open(io.BytesIO(data))
    assert (picture.format, picture.mode, picture.size) == ("PNG", "RGB", (WIDTH, HEIGHT))
    assert len(data) < 64_000
    assert picture.convert("L").getpixel((0, 0)) in range(200, 256), "light, on whatever stands around it"


@given(st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**15)), min_size=1, max_size=7))
def test_any_numbers_can_be_drawn(values: list[tuple[int, int]]) -> None:
    assert bars_picture([Bar("12-31", value, short(value), part=part) for value, part in values])


def test_there_is_no_chart_of_nothing() -> None:
    with pytest.raises(ValueError, match="needs bars"):
        bars_picture([])


# What is kept.


async def test_usage_is_kept_with_who_paid_and_its_cost(tmp_path: Path) -> None:
    async with core(tmp_path, prices=PRICES) as c:
        await c.say("q")
        await c.say("q", BOB, "g")
        await c.answered()
        assert (await spent(c, conversation=f"memory:{ANN}", speaker=f"memory:{ANN}")).totals == (10, 2, 0, 1)
        group = await spent(c, conversation="memory:g", speaker=f"memory:{BOB}")
        assert (group.tokens, group.costs) == (12, {"USD": 36_000})


async def test_a_model_without_a_price_costs_nothing_that_is_known(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("q")
        await c.answered()
        assert (await spent(c)).costs == {}
        assert EN.usage["cost"] not in await shown(c)


async def test_the_first_call_of_a_run_is_counted_when_it_starts(tmp_path: Path) -> None:
    counts: list[int] = []
    async with core(tmp_path) as c:

        async def two_rounds(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            ledger = StoreRunLedger(RetryingStore(c.store, c.clock), c.spending.meter)
            started = await c.store.read(lambda tx: runs.load(tx, tell.ctx.run_id))
            assert started is not None
            counts.append(started.model_calls)
            counts.extend([await ledger.model_called(tell.ctx.run_id) for _ in range(2)])
            yield tell.answer("done")

        c.harness.scripts["q"] = two_rounds
        await c.say("q")
        await c.answered()
    assert counts == [1, 1, 2]


async def test_what_a_run_used_before_a_crash_is_kept(tmp_path: Path) -> None:
    async with core(tmp_path, prices=PRICES) as c:

        async def two_rounds(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            ledger = StoreRunLedger(RetryingStore(c.store, c.clock), c.spending.meter)
            await ledger.model_called(tell.ctx.run_id)
            yield used(100, 10)(tell)
            await ledger.model_called(tell.ctx.run_id)
            if len(c.harness.starts) == 1:
                await waits.wait()
            yield used(200, 20)(tell)
            yield tell.answer("done")

        waits = c.harness.hold("never")
        c.harness.scripts["q"] = two_rounds
        await c.say("q")
        await c.clock.settle()
        await c.restart()
        await c.answered()
        assert c.texts() == ["done"]
        # The first round was made twice and paid twice; the second was told of once.
        assert (await spent(c)).totals == (400, 40, 0, 3)


async def test_a_planned_stop_keeps_it_too_and_nothing_counts_twice(tmp_path: Path) -> None:
    async with core(tmp_path) as c:

        async def one_round(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            yield used(100, 10)(tell)
            if len(c.harness.starts) == 1:
                await waits.wait()
            yield tell.answer("done")

        waits = c.harness.hold("never")
        c.harness.scripts["q"] = one_round
        await c.say("q")
        await c.clock.settle()
        await c.stop()
        assert c.tasks is not None
        await c.start()
        await c.answered()
        assert (await spent(c)).totals == (200, 20, 0, 2)


# What is told.


async def test_usage_tells_of_the_answer_the_thread_and_the_chat(tmp_path: Path) -> None:
    async with core(tmp_path, prices=PRICES) as c:
        c.harness.tells("q", used(40_000, 500, 10_000), lambda tell: tell.answer("done"))
        for line in ("q", "/new", "q", "q"):
            await c.say(line, BOB)
            await c.answered()
        text = await shown(c, person=BOB)
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert rows[0] == "|  | tokens | cached | cost USD |"
        assert rows[2:] == [
            "| last answer | 40.5k | 25% | 0.0690 |",
            "| this thread | 81.0k | 25% | 0.1380 |",
            "| chat today | 122k | 25% | 0.2070 |",
            "| chat total | 122k | 25% | 0.2070 |",
        ]
        assert EN.usage["chart"] in text
        (file,) = (bubble.part.file for bubble in c.channel.chats[BOB] if bubble.part.file is not None)
        assert (file.kind, file.mime_type) == ("image", "image/png")
        assert Image.open(io.BytesIO(file.path.read_bytes())).size == (WIDTH, HEIGHT)
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
        assert "| 01-01 | 122k |" in file.instead, "for a platform that does not take it"
        await c.pictures.clear_left(c.store)
        assert not file.path.exists()


async def test_an_administrator_is_told_of_all_but_only_in_private(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("q", BOB)
        await c.say("q", BOB, "g")
        await c.answered()
        assert "| all today | 24 |" in await shown(c)
        assert "all today" not in await shown(c, chat="g")
        assert "all today" not in await shown(c, person=BOB)


async def test_a_running_answer_is_told_so_far(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        gate = c.harness.hold("never")

        async def long(tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
            yield used(70, 7)(tell)
            await gate.wait()
            yield tell.answer("done")

        c.harness.scripts["q"] = long
        await c.say("q", BOB)
        await c.say("/usage", BOB)
        await c.clock.advance(2)
        assert "| so far | 77 |" in c.texts(BOB)[1]
        gate.set()
        await c.answered()
        assert (await spent(c)).totals == (70, 7, 0, 1)


async def test_today_ends_at_midnight_of_the_config(tmp_path: Path) -> None:
    async with core(tmp_path, timezone="Asia/Shanghai") as c:  # 8 o'clock in the morning there
        await c.say("q", BOB)
        await c.answered()
        await c.clock.advance(15 * 3600)
        assert "| chat today | 12 |" in await shown(c, person=BOB)
        await c.clock.advance(3600)
        text = await shown(c, person=BOB)
        assert "| chat today | 0 |" in text
        assert "| chat total | 12 |" in text


async def test_today_is_that_of_the_chat_where_it_has_a_time_zone(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("/timezone Asia/Shanghai", ANN)
        for person in (ANN, BOB):
            await c.say("q", person)
        await c.answered()
        await c.clock.advance(16 * 3600)  # midnight there
        c.pictures._capabilities = lambda account: None
        text = await shown(c, person=ANN)
        assert "| chat today | 0 |" in text
        assert "| 01-01 | 24 |" in text, "the day before, there and in all chats"
        assert "| chat today | 12 |" in await shown(c, person=BOB)


async def test_where_no_pictures_are_shown_the_days_are_a_table(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        await c.say("q", BOB)
        await c.answered()
        c.pictures._capabilities = lambda account: None
        text = await shown(c, person=BOB)
        assert "| day | tokens | cached |" in text
        assert "| 01-01 | 12 | 0% |" in text
        assert "| 12-31 | 0 | – |" in text
        assert all(bubble.part.file is None for bubble in c.channel.chats[BOB])


async def test_before_the_first_call_there_is_only_the_table(tmp_path: Path) -> None:
    async with core(tmp_path) as c:
        text = await shown(c, person=BOB)
        assert "| chat total | 0 | – |" in text
        assert EN.usage["chart"] not in text
        assert ZH.usage["title"] in await shown(c, "/usage 用量", BOB)
