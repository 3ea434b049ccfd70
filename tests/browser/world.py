"""A gateway whose agent answers by a script, with files of many kinds and somebody who listens: for browser tests."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bot.access.admission import AccountPolicy
from bot.files.uploads import UploadLimits
from bot.settings.sections import TranscriptionSettings
from harness.context import Voice
from harness.events import Finished, Outcome, ReadyFile, TextDelta
from tests.bot.core import RULES
from tests.bot.http.served import ServedCore

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator
    from pathlib import Path

    from bot.settings import Settings
    from harness.context import InputFile
    from harness.events import AnyRunEvent
    from tests.bot.scripted_harness import Teller

SPOKEN = "Compare the three shops"
CODE = '''\
```python
import csv
from collections import defaultdict


def totals(path: str) -> dict[str, float]:
    """Revenue of each shop, in euros."""
    found: dict[str, float] = defaultdict(float)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            found[row["shop"]] += float(row["amount"])  # one line per sale
    return dict(found)
```
'''
ANSWER = f"""\
North earns the most, and it is the only shop whose revenue grows every month.

{CODE}
The totals are in `revenue.csv`; the report says how they were made.
"""
CSV = "shop,month,revenue,share\n" + "\n".join(
    f"{shop},2026-{month:02},{1200 + 137 * month + 800 * (shop == 'North')},{20 + month} %"
    for shop in ("North", "Harbour", "Old Town")
    for month in range(1, 13)
)
REPORT = """\
# Revenue by shop

The three shops were compared **month by month**. What stands out:

1. North grows steadily.
2. Harbour depends on the summer.
3. Old Town is stable.

| shop | best month |
|---|---|
| North | December |
| Harbour | July |

```sql
SELECT shop, sum(revenue) FROM sales GROUP BY shop;
```
"""
FILES = {
    "report.md": ("text/markdown", REPORT),
    "revenue.csv": ("text/csv", CSV),
    "totals.py": ("text/x-python", CODE.removeprefix("```python\n").removesuffix("```\n")),
    "page.html": (
        "text/html",
        "<!doctype html>\n<script>alert(document.domain)</script>\n<h1 onclick='x()'>Shops</h1>\n",
    ),
    "sales.xlsx": ("application/octet-stream", "PK\x03\x04\0\0"),
}


class Listening:
    """SpeechToText that hears the same in everything."""

    works = True

    def __init__(self) -> None:
        self.heard: list[InputFile] = []

    async def hear(self, thread_id: str, file: InputFile, speaker: str) -> InputFile:
        self.heard.append(file)
        return replace(file, voice=Voice(transcript=SPOKEN))

    def limit(self, reason: str) -> str:
        return ""

    async def close(self) -> None:
        return None


@dataclass
class Office(ServedCore):
    """It listens to voice messages."""

    @property
    def settings(self) -> Settings:
        heard = TranscriptionSettings(model="x", base_url="http://127.0.0.1:9/v1")
        return super().settings.model_copy(update={"transcription": heard})

    async def report(self, tell: Teller) -> AsyncGenerator[AnyRunEvent, None]:
        """An answer with code, and a file of each kind."""
        folder = self.folder / "spool" / tell.ctx.run_id
        folder.mkdir(parents=True)
        yield tell(TextDelta, message_id="a", text=ANSWER)
        files = []
        for name, (mime_type, content) in FILES.items():
            (folder / name).write_text(content)
            files.append(
                ReadyFile(
                    name=name,
                    path=name,
                    mime_type=mime_type,
                    size=len(content),
                    kind="file",
                    spooled=f"{tell.ctx.run_id}/{name}",
                )
            )
        yield tell(Finished, outcome=Outcome.SUCCESS, text=ANSWER, message_id="a", files=tuple(files))

    async def quiet(self) -> None:
        """Until everything that was said is answered, and shown."""
        await self.answered()
        await self.clock.until(self.delivery.drained())
        await self.clock.advance(1)  # what comes next is said later


@asynccontextmanager
async def office(folder: Path) -> AsyncIterator[Office]:
    """One that has started."""
    made = Office(folder, AccountPolicy(RULES), hearing=Listening(), upload_limits=UploadLimits(*[10**8] * 4))
    made.harness.scripts["report"] = made.report
    await made.start()
    try:
        yield made
    finally:
        await made.crash()
