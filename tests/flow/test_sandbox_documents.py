"""Documents that people send become text for the agent, made inside the sandbox and within its limits."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from sandbox.policy import DEFAULT_FOLDER, complete
from tests.flow.sandboxed import bash, call, require_bubblewrap
from tests.simulators.telegram.seen import FileSpec, Person
from tests.simulators.web.site import Site, write

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from tests.flow.gateway import World
    from tests.simulators.web.site import Asked

require_bubblewrap()
if complete(DEFAULT_FOLDER) is None and not os.environ.get("CI"):
    pytest.skip("the runtime for the agent's code is not built: make sandbox-runtime", allow_module_level=True)
pytestmark = pytest.mark.asyncio(loop_scope="module")

READ = bash("cat /mnt/user-data/uploads/*.md")
WORDS = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


TABLE = (
    "<w:p><w:r><w:t>Ships of the harbour.</w:t></w:r></w:p><w:tbl>"
    + "".join(
        f"<w:tr>{''.join(f'<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>' for cell in row)}</w:tr>"
        for row in (("Year", "Ships"), ("1911", "42"))
    )
    + "</w:tbl>"
).encode()


def ruled_pdf() -> bytes:
    """A PDF of two pages, the first with a ruled table of two columns below a line of text."""
    words = [
        (72, 740, "Ships of the harbour."),
        (80, 706, "Year"),
        (180, 706, "Ships"),
        (80, 686, "1911"),
        (180, 686, "42"),
    ]
    lines = [(72, y, 272, y) for y in (680, 700, 720)] + [(x, 680, x, 720) for x in (72, 172, 272)]
    drawn = "".join(f"BT /F 12 Tf {x} {y} Td ({text}) Tj ET\n" for x, y, text in words)
    drawn += "".join(f"{a} {b} m {c} {d} l S\n" for a, b, c, d in lines)
    streams = [drawn, "BT /F 12 Tf 72 740 Td (The second page.) Tj ET\n"]
    page = (
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {} 0 R /Resources << /Font << /F 7 0 R >> >> >>"
    )
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>",
        page.format(5),
        page.format(6),
        *(f"<< /Length {len(stream)} >>\nstream\n{stream}endstream" for stream in streams),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    body, places = "%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return f"{body}xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{end}".encode()


async def _paper(asked: Asked, writer: asyncio.StreamWriter) -> None:
    write(writer, ruled_pdf(), "application/pdf")


async def _ships(asked: Asked, writer: asyncio.StreamWriter) -> None:
    write(writer, document(TABLE), "application/vnd.openxmlformats-officedocument.wordprocessingml.document")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with Site(own={"/ships": _ships, "/paper": _paper}).serve() as site:
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(public_world: World, site: Site) -> AsyncIterator[World]:
    public_world.settings = public_world.settings | {
        "sandbox": {"limits": {"memory_mb": 500}},
        "web": {"fetch": {"enabled": True, "allow": [f"127.0.0.1:{site.port}"]}},
    }
    async with public_world:
        yield public_world


def document(body: bytes, times: int = 1) -> bytes:
    """A Word file with that body, repeated."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        types = (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" '
            'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override '
            'PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            'wordprocessingml.document.main+xml"/></Types>'
        )
        relations = (
            '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship '
            'Id="r" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
            'Target="word/document.xml"/></Relationships>'
        )
        archive.writestr("[Content_Types].xml", types)
        archive.writestr("_rels/.rels", relations)
        with archive.open("word/document.xml", "w") as part:
            part.write(f'<w:document xmlns:w="{WORDS}"><w:body>'.encode())
            for _ in range(times):
                part.write(body)
            part.write(b"</w:body></w:document>")
    return buffer.getvalue()


async def told(gateway: World, person: Person) -> str:
    """What the model read of the person's message."""
    requests = await gateway.model.completions()
    return next(r.last_user_text for r in requests if person.first_name in str(r.body["messages"]))


async def test_a_document_is_read_by_the_agent(gateway: World, person: Person) -> None:
    word = document(b"<w:p><w:r><w:t>The word is zebra.</w:t></w:r></w:p>")
    await gateway.telegram.user_says(READ, user=person, file=FileSpec(name="memo.docx", content=word))
    answer = await gateway.telegram.wait_for_text(person, "Tool result", timeout=40)
    assert "The word is zebra." in answer.text
    assert "-memo.docx.md" in await told(gateway, person)


async def test_of_a_notebook_the_agent_reads_words_and_code_but_no_pictures(gateway: World, person: Person) -> None:
    words = {"cell_type": "markdown", "metadata": {}, "source": ["The word is zebra."]}
    drawn = {"output_type": "display_data", "metadata": {}, "data": {"image/png": "iVBORw0KGgo="}}
    code = {"cell_type": "code", "metadata": {}, "source": ["draw()"], "outputs": [drawn], "execution_count": 1}
    book = json.dumps({"cells": [words, code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()
    await gateway.telegram.user_says(READ, user=person, file=FileSpec(name="plot.ipynb", content=book))
    answer = await gateway.telegram.wait_for_text(person, "Tool result", timeout=40)
    assert "The word is zebra." in answer.text
    assert "draw()" in answer.text
    assert "iVBOR" not in answer.text


async def test_a_document_of_the_web_is_read_with_its_table(gateway: World, person: Person, site: Site) -> None:
    await gateway.telegram.user_says(f"{call('web_fetch', url=site.url('/ships'))}\n!quote 1911", user=person)
    answer = await gateway.telegram.wait_for_text(person, "I read: ", timeout=40)
    assert "| 1911 | 42 |" in answer.text
    cards = {json.loads(card.read_bytes())["url"]: card for card in gateway.data_dir.glob("threads/*/sources/*.json")}
    card = cards[site.url("/ships")]
    source = json.loads(card.read_bytes())
    assert "| 1911 | 42 |" in card.with_name(f"{source['sha256']}.txt").read_text()
    await gateway.telegram.user_says(bash("ls -a /mnt /mnt/user-data; echo listed"), user=person)
    listing = await gateway.telegram.wait_for_text(person, "listed")
    assert "workspace" in listing.text
    assert "sources" not in listing.text


async def test_the_tables_of_a_pdf_stay_tables(gateway: World, person: Person, site: Site) -> None:
    await gateway.telegram.user_says(f"{call('web_fetch', url=site.url('/paper'))}\n!quote 1911", user=person)
    assert "| 1911 | 42 |" in (await gateway.telegram.wait_for_text(person, "I read: ", timeout=40)).text
    quoted = bash("cat /mnt/user-data/uploads/*.md")
    await gateway.telegram.user_says(quoted, user=person, file=FileSpec(name="paper.pdf", content=ruled_pdf()))
    answer = await gateway.telegram.wait_for_text(person, "Tool result", timeout=40)
    for part in ("Ships of the harbour.", "1911", "The second page."):
        assert part in answer.text


@pytest.mark.parametrize(
    ("name", "why"), [("broken.docx", "File is not a zip file"), ("letter.doc", ".doc is not supported")]
)
async def test_why_a_document_has_no_text_is_told_in_one_line(
    gateway: World, person: Person, name: str, why: str
) -> None:
    torn = document(b"<w:p><w:r><w:t>zebra</w:t></w:r></w:p>")[:300]
    await gateway.telegram.user_says("read it", user=person, file=FileSpec(name=name, content=torn))
    await gateway.telegram.wait_for_text(person, "read it", timeout=40)
    (line,) = (line for line in (await told(gateway, person)).splitlines() if name in line)
    reason = line.partition("; its text could not be extracted: ")[2]
    assert why in reason
    assert not re.search(r"/\w", reason), "no path of this machine"


async def test_a_bomb_costs_nothing_but_its_text(gateway: World, person: Person) -> None:
    bomb = document(b"<w:p><w:r><w:t>zebra</w:t></w:r></w:p>" * 1000, 4000)
    assert len(bomb) < 2_000_000
    await gateway.telegram.user_says("what is in it?", user=person, file=FileSpec(name="bomb.docx", content=bomb))
    await gateway.telegram.wait_for_text(person, "what is in it?", timeout=60)
    text = await told(gateway, person)
    assert "-bomb.docx" in text
    assert ".docx.md" not in text
    assert "; its text could not be extracted: " in text
    assert "a document was not converted" in gateway.log
