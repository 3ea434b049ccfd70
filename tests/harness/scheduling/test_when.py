"""Times of what is put off: once and by cron, in a timezone whose clocks are put forward and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scheduling.when import BadTime, When, at_time, in_minutes, local, local_day, repeated
from tests.tables import table

BERLIN = "Europe/Berlin"
NOW = datetime(2026, 3, 27, 10, 0, tzinfo=UTC)
QUARTER = timedelta(minutes=15)


def times(when: When, moment: datetime, count: int) -> list[str]:
    return [local(at, when.timezone) for at in islice(when.after(moment), count)]


# Once.


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("2026-03-28T18:00", "2026-03-28 18:00 CET"),
        ("2026-03-28 18:00", "2026-03-28 18:00 CET"),
        ("2026-03-28T18:00Z", "2026-03-28 19:00 CET"),
        ("2026-03-28T18:00+09:00", "2026-03-28 10:00 CET"),
        ("2026-03-29T02:30", "2026-03-29 03:30 CEST"),  # the hour that is left out
        ("2026-10-25T02:30", "2026-10-25 02:30 CEST"),  # the hour that comes twice
    ],
)
def test_a_time_is_local_unless_it_says_otherwise(text: str, due: str) -> None:
    when = at_time(text, BERLIN, NOW)
    assert times(when, NOW, 5) == [due]
    at = when.next(NOW)
    assert at is not None
    assert when.next(at) is None


@pytest.mark.parametrize(
    "text",
    ["tomorrow", "", "2026-03-28", "2026-03-27T09:00", "2040-01-01T00:00", "9999-12-31T23:59:59-12:00", "18:00"],
)
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(BadTime):
        at_time(text, BERLIN, NOW)


def test_what_is_over_is_told_with_the_time_that_it_is() -> None:
    with pytest.raises(BadTime, match="2026-03-27 09:00 CET is in the past: it is Friday 2026-03-27 11:00 CET"):
        at_time("2026-03-27T09:00", BERLIN, NOW)


def test_in_so_many_minutes() -> None:
    assert in_minutes(0.5, BERLIN, NOW).next(NOW) == NOW + timedelta(seconds=30)
    for minutes in (0, -1, float("nan"), float("inf"), 1e300):
        with pytest.raises(BadTime):
            in_minutes(minutes, BERLIN, NOW)


# Again and again.


def test_nine_o_clock_stays_nine_o_clock_when_the_clocks_change() -> None:
    when = repeated("0 9 * * *", BERLIN, NOW, QUARTER)
    assert times(when, NOW, 3) == ["2026-03-28 09:00 CET", "2026-03-29 09:00 CEST", "2026-03-30 09:00 CEST"]
    assert [at.hour for at in islice(when.after(NOW), 3)] == [8, 7, 7]


def test_a_time_that_is_left_out_comes_once_right_after() -> None:
    when = repeated("30 2 * * *", BERLIN, NOW, QUARTER)
    assert times(when, NOW, 3) == ["2026-03-28 02:30 CET", "2026-03-29 03:00 CEST", "2026-03-30 02:30 CEST"]


def test_a_time_that_comes_twice_is_due_once() -> None:
    when = repeated("30 2 * * *", BERLIN, NOW, QUARTER)
    before = datetime(2026, 10, 24, 12, 0, tzinfo=UTC)
    assert times(when, before, 2) == ["2026-10-25 02:30 CEST", "2026-10-26 02:30 CET"]
    within_the_second = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    assert times(when, within_the_second, 1) == ["2026-10-26 02:30 CET"]


def test_every_hour_goes_on_through_the_hour_that_comes_twice() -> None:
    when = repeated("0 * * * *", BERLIN, NOW, QUARTER)
    found = list(islice(when.after(datetime(2026, 10, 24, 23, 30, tzinfo=UTC)), 3))
    assert [later - earlier for earlier, later in pairwise(found)] == [timedelta(hours=1)] * 2


@table(
    "expression",
    [
        *("", "* * * *", "0 9 * * * *", "60 9 * * *", "0 9 * * XYZ", "@daily", "0 0 30 2 *", "x" * 200, "0 9 * * ٣"),
        "* * */20 * 1L",
    ],
)
def test_other_expressions_are_refused(expression: str) -> None:
    with pytest.raises(BadTime):
        repeated(expression, BERLIN, NOW, timedelta(minutes=1))


@pytest.mark.parametrize("expression", ["*/14 * * * *", "0,14 9 * * MON", "59 0-23 * * *", "0 0 29 2 *", "* 9 * * *"])
def test_two_times_lie_apart_as_the_operator_wants(expression: str) -> None:
    assert repeated(expression, BERLIN, NOW, timedelta(minutes=1)).next(NOW) is not None
    hourly = timedelta(hours=1)
    if expression in ("59 0-23 * * *", "0 0 29 2 *"):
        assert repeated(expression, BERLIN, NOW, hourly).next(NOW) is not None
    else:
        with pytest.raises(BadTime, match="at least 15 minutes"):
            repeated(expression, BERLIN, NOW, QUARTER)


def test_times_that_only_touch_at_midnight_are_too_close_too() -> None:
    with pytest.raises(BadTime, match="too often"):
        repeated("0,55 0,23 * * *", BERLIN, NOW, QUARTER)


def test_what_cannot_be_read_any_more_says_so() -> None:
    with pytest.raises(BadTime):
        When("cron", "no cron", BERLIN).next(NOW)


fields = st.tuples(
    st.sampled_from(["0", "30", "15,45", "*/20"]),
    st.sampled_from(["*", "2", "1-3", "*/6", "2,3"]),
    st.sampled_from(["*", "1", "L", "15"]),
    st.sampled_from(["*", "3", "10", "3,10"]),
    st.sampled_from(["*", "SUN", "MON-FRI", "7"]),
)


@given(
    fields,
    st.sampled_from([BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),
)
def test_every_next_time_is_later_and_on_the_minute(expression: tuple[str, ...], zone: str, naive: datetime) -> None:
    moment = naive.replace(tzinfo=UTC)
    when = When("cron", " ".join(expression), zone)
    found = list(islice(when.after(moment), 5))
    assert len(found) == 5
    assert all(earlier < later for earlier, later in pairwise([moment, *found]))
    assert all((at.second, at.microsecond, at.tzinfo) == (0, 0, UTC) for at in found)
    assert when.next(found[0]) == found[1]
    months = {"*": range(1, 13), "3": (3,), "10": (10,), "3,10": (3, 10)}[expression[3]]
    assert all(at.astimezone(ZoneInfo(zone)).month in months for at in found)


def test_times_are_told_as_people_write_them() -> None:
    assert local(NOW, "Asia/Shanghai") == "2026-03-27 18:00 CST"
    assert local_day(NOW, "UTC") == "Friday 2026-03-27 10:00 UTC"
