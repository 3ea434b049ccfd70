"""An outage is told at its beginning, ever more rarely while it lasts, and once at its end."""

from __future__ import annotations

from harness.threads.outage import Outage


class Told:
    """An outage with a clock to be set, and what was said at which time."""

    def __init__(self) -> None:
        self.now = 100.0
        self.said: list[tuple[float, str]] = []
        self.outage = Outage(self.tell, "cannot be written", "is written again", lambda: self.now)

    def tell(self, text: str, *arguments: object) -> None:
        self.said.append((self.now - 100, text % arguments))


def test_it_is_told_ever_more_rarely_and_at_its_end() -> None:
    told = Told()
    for _ in range(200):
        told.outage.failed("a", OSError("full"))
        told.now += 1
    told.outage.succeeded("a")
    assert [when for when, _ in told.said] == [0, 4, 12, 28, 60, 120, 180, 200]
    assert told.said[0][1] == "cannot be written, retrying: full"
    assert told.said[-1][1] == "is written again, after 200 s"


def test_many_that_wait_are_one_outage_until_the_last_of_them_succeeded() -> None:
    told = Told()
    for work in ("a", "b", "c"):
        told.outage.failed(work, OSError("full"))
    told.outage.succeeded("small")
    told.outage.succeeded("a")
    told.outage.left("c")
    assert len(told.said) == 1
    told.outage.succeeded("b")
    told.outage.succeeded("d")
    assert [text for _, text in told.said][1:] == ["is written again, after 0 s"]


def test_the_next_one_is_told_from_its_beginning() -> None:
    told = Told()
    for _ in range(2):
        told.outage.failed("a", OSError("full"))
        told.outage.succeeded("a")
    assert len(told.said) == 4


def test_one_whose_last_waiter_left_is_over_when_the_next_work_succeeds() -> None:
    told = Told()
    told.outage.failed("a", OSError("full"))
    told.outage.left("a")
    told.outage.failed("b", OSError("full"))
    assert len(told.said) == 1
    told.outage.succeeded("b")
    assert len(told.said) == 2
