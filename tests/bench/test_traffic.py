"""What the soak says and how it counts the answers."""

from __future__ import annotations

from tests.bench.soak import Sample, growth, rise, settled
from tests.bench.traffic import Talk, mark, marks


def samples() -> list[Sample]:
    return [
        Sample(
            at=5.0 * n,
            rss=100 + n / 72,
            pss=90,
            files=20 + (n >= 8),
            threads=7,
            databases=n * 0.5,
            running=0,
            waiting=0,
            sent=25 * n,
        )
        for n in range(10)
    ]


def test_every_question_brings_its_mark_into_the_answer() -> None:
    talk = Talk(stumbling=True)
    questions = [talk.question(number) for number in range(200)]
    assert all(mark(number) in question for number, question in enumerate(questions))
    assert any("times=1" in question for question in questions)
    assert questions == [again.question(number) for again in [Talk(stumbling=True)] for number in range(200)]


def test_a_mark_is_counted_once_per_message() -> None:
    assert marks([f"{mark(3)} and {mark(3)}", mark(3), "nothing", mark(4)]) == {mark(3): 2, mark(4): 1}


def test_growth_and_rise_are_read_after_the_warm_up() -> None:
    warm = settled(samples())
    assert warm[0].at == 25
    assert round(growth(warm, "rss"), 6) == 10
    assert round(growth(warm, "databases", by="sent") * 1000, 6) == 20
    assert rise(warm, "files") == 1
    assert len(settled(samples()[:1])) == 1
