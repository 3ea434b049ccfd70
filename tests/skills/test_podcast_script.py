"""check_script: how long it takes to say, who speaks, and what the ear cannot take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.skills.running import require_runtime, script

if TYPE_CHECKING:
    from pathlib import Path

require_runtime()

SCRIPT = f"""# The pump
> written for two voices

## Hook
[music 6s]

**ANN:** {"word " * 30}stops. [pause 2s] Why?

**BEN:** {"word " * 29}so.

## Answer

**ANN:** Because *of* the part
that nobody sees.
"""


def check(folder: Path, text: str, *arguments: str, fails: bool = False) -> str:
    (folder / "s.md").write_text(text)
    return script("podcast-script/check_script", "s.md", *arguments, folder=folder, fails=fails)


def test_it_is_timed_by_segment_and_speaker(tmp_path: Path) -> None:
    """32 words at 60 a minute are 32 s; silences and a breath after each turn come on top."""
    said = check(tmp_path, SCRIPT, "--rate", "60")
    assert said.splitlines()[:4] == [
        "The pump: about 1:18 at 60 words a minute, 3 turns",
        "- Hook: 1:10",
        "- Answer: 0:07",
        "speakers: ANN 58%, BEN 42%",
    ]
    assert "warning: 1:18 instead of 3:00: add about 102 words" in check(
        tmp_path, SCRIPT, "--rate", "60", "--minutes", "3"
    )


def test_what_is_said_can_be_taken_out_and_timed(tmp_path: Path) -> None:
    check(tmp_path, SCRIPT, "--rate", "60", "--spoken", "out/spoken.txt", "--subtitles", "out/s.srt")
    spoken = (tmp_path / "out" / "spoken.txt").read_text()
    assert spoken.endswith("ANN: Because of the part that nobody sees.\n")
    assert "[" not in spoken
    assert "written for" not in spoken
    blocks = (tmp_path / "out" / "s.srt").read_text().split("\n\n")
    assert blocks[0].startswith("1\n00:00:08,000 --> 00:00:39,000\nANN: word")
    assert blocks[1].startswith("2\n00:00:39,000 --> 00:00:40,000\nANN: Why?")
    assert blocks[-1].startswith("4\n00:01:10,800 --> 00:01:17,800\nANN: Because of the part")


def test_chinese_is_timed_by_its_characters(tmp_path: Path) -> None:
    assert "about 0:30" in check(tmp_path, f"**安：** {'水' * 120}。\n", "--language", "zh")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("See https://example.org for it.", "an address cannot be heard"),
        ("It cost 1,204,331 euros.", "an exact figure"),
        ("Of 3 in 10 some 4 had 5 left.", "more than 3 figures in one turn"),
        ("It works (as everybody in the field knows).", "brackets cannot be heard"),
        ("Furthermore, it works.", "nobody says that aloud"),
        ("word " * 30 + ".", "a sentence of 30 words"),
        ("One two. " * 50, "speaks 100 words without a break"),
    ],
)
def test_what_the_ear_cannot_take_is_marked(tmp_path: Path, text: str, said: str) -> None:
    (warning,) = (line for line in check(tmp_path, f"**A:** Yes.\n\n**B:** {text}\n").splitlines() if said in line)
    assert warning.startswith("warning: line 3: ")
    assert check(tmp_path, "**A:** Yes.\n\n**B:** It works.\n").count("warning") == 0


def test_words_that_nobody_says_are_refused(tmp_path: Path) -> None:
    assert "line 3: nobody says 'Hello there.'" in check(tmp_path, "# T\n\nHello there.\n", fails=True)
    assert "nothing is said" in check(tmp_path, "# T\n", fails=True)
