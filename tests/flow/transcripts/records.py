"""The files in which plays are kept, one for each scene and platform, and the page of the docs that shows them."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from tests.flow.transcripts.eyes import EYES
from tests.flow.transcripts.pages import RULES
from tests.flow.transcripts.scenarios import SCENES, Scene
from tests.flow.transcripts.stage import play

FOLDER = Path(__file__).parent
DOCS = FOLDER.parents[2] / "docs" / "transcripts.md"
SHOWN = "telegram"
"""The platform whose plays the page shows at once; those of the others are folded."""
INTRODUCTION = """\
# How it feels

What a chat shows over time, second by second, in the situations that people meet: played by the real gateway before
simulated platforms and a simulated model that writes 200 characters a second. Made by
`python -m tests.flow.transcripts --update` from the files that the tests compare exactly ([testing.md](testing.md)).
Telegram's are shown; the others fold out.
"""


@dataclass(frozen=True, slots=True)
class Record:
    """One scene on one platform."""

    scene: Scene
    platform: str

    @property
    def file(self) -> Path:
        return FOLDER / self.platform / f"{self.scene.name}.txt"

    @property
    def kept(self) -> str:
        """What the file says, "" where there is none yet."""
        return self.file.read_text() if self.file.exists() else ""

    def play(self) -> str:
        """What the file would say of a play now."""
        lines = play(self.scene.act, EYES[self.platform](self.scene.place), self.scene.settings)
        return "\n".join([f"# {self.scene.tells} On {self.platform}.", RULES, "", *lines, ""])

    def changes(self, played: str) -> str:
        """How a play differs from what is kept, as a unified diff; "" where it does not."""
        name = self.file.relative_to(FOLDER).as_posix()
        lines = difflib.unified_diff(
            self.kept.splitlines(keepends=True), played.splitlines(keepends=True), f"{name}: kept", f"{name}: played"
        )
        return "".join(lines)

    def write(self, played: str) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(played)


RECORDS = tuple(
    Record(scene, platform) for scene in SCENES.values() for platform in EYES if platform not in scene.not_on
)


def strangers() -> list[Path]:
    """Files that no scene writes any more."""
    return sorted(set(FOLDER.glob("*/*.txt")) - {record.file for record in RECORDS})


def forget_strangers() -> None:
    for file in strangers():
        file.unlink()


def page() -> str:
    """The page of the docs, made of the files."""
    return "\n".join([INTRODUCTION, "```text", RULES, "```", *(_chapter(scene) for scene in SCENES.values())])


def _chapter(scene: Scene) -> str:
    parts = [f"\n## {scene.name.replace('-', ' ').capitalize()}", f"\n{scene.tells}\n"]
    for record in (record for record in RECORDS if record.scene is scene):
        lines = f"```text\n{record.kept.partition(RULES)[2].strip(chr(10))}\n```\n"
        folded = f"<details><summary>{record.platform}</summary>\n\n{lines}\n</details>\n"
        parts.append(lines if record.platform == SHOWN else folded)
    return "\n".join(parts)
