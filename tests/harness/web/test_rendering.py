"""Documents and pages that need JavaScript, read by programs in the thread's sandbox."""

from __future__ import annotations

import os
import shutil
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from bot.files.sandboxes import Sandboxes
from harness.agents.parts import ExtraSettings
from harness.web.config import FetchSettings, WebSettings
from harness.web.rendering import document_suffix
from sandbox.config import SandboxSettings
from sandbox.policy import STAMP
from tests.harness.support import answers, calls
from tests.harness.web.conftest import stands
from tests.simulators.web.site import page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.harness.support import Bench, Script
    from tests.simulators.web.site import Site

MARKITDOWN = """#!/bin/sh
# python3 -m markitdown DOCUMENT -o TEXT, before which a PDF is searched for tables
[ "$1" = -c ] && exit 4
if ! grep -q "%PDF" "$3"; then echo "no document" >&2; exit 1; fi
printf '# The report\n\n| Year | Ships |\n|---|---|\n| 1911 | 42 |\n' > "$5"
"""
CHROMIUM = """#!/bin/sh
# chromium --headless ... --dump-dom URL
for last; do :; done
echo "<html><head><title>App</title></head><body><article><h1>App</h1>"
for number in 1 2 3 4 5 6 7 8 9; do echo "<p>The script wrote line $number of $last into the page.</p>"; done
echo "</article><script>render()</script></body></html>"
"""
bubblewrap = pytest.mark.skipif(
    shutil.which("bwrap", path="/usr/bin:/bin") is None and not os.environ.get("CI"), reason="bubblewrap is missing"
)


@asynccontextmanager
async def sandboxed(bench: Bench, site: Site, folder: Path, **programs: str) -> AsyncIterator[None]:
    """The bench with a sandbox whose commands find these programs, and whose network reaches the site."""
    runtime = folder / "runtime"
    (runtime / "bin").mkdir(parents=True)
    (runtime / STAMP).write_text("built")
    for name, text in programs.items():
        (runtime / "bin" / name).write_text(text)
        (runtime / "bin" / name).chmod(0o755)
    settings = SandboxSettings.model_validate({"use": "bubblewrap", "runtime": str(runtime)})
    made = Sandboxes(settings, folder / "data")
    setup = await made.start()
    assert setup is not None
    bench.sandbox = replace(setup, report=replace(setup.report, hosts=("127.0.0.1",)))
    try:
        yield
    finally:
        await made.shutdown(10)


def reading(bench: Bench, site: Site, **more: Any) -> None:
    fetch = FetchSettings(enabled=True, allow=(f"127.0.0.1:{site.port}",), **more)
    bench.extras = ExtraSettings(web=WebSettings(fetch=fetch))


async def read(bench: Bench, script: Script, *urls: str) -> list[str]:
    return await answers(bench, script, calls(*(("web_fetch", {"url": url}) for url in urls)))


def left(folder: Path) -> list[str]:
    """Names of what lies in the folder of results."""
    return sorted(path.name for path in folder.rglob("outputs/.tool-results/*"))


@bubblewrap
async def test_a_document_is_read_with_its_tables(bench: Bench, script: Script, site: Site, tmp_path: Path) -> None:
    site.own["/report.pdf"] = page("%PDF-1.7 x", "application/octet-stream")
    site.own["/broken.docx"] = page("x", "application/octet-stream")
    reading(bench, site)
    async with sandboxed(bench, site, tmp_path, python3=MARKITDOWN):
        paper, report, broken = await read(
            bench, script, site.url("/pdf"), site.url("/report.pdf"), site.url("/broken.docx")
        )
        assert "title: The report\n\n# The report\n\n| Year | Ships |" in paper
        assert "| 1911 | 42 |" in report
        assert broken == "This page was not read. The document could not be read: no document. Use another source."
        assert await stands(bench.sources, site.url("/report.pdf"), "1911 42")
        assert len(left(tmp_path)) == 2
        assert all(name.endswith(".txt") for name in left(tmp_path))


@bubblewrap
async def test_a_document_that_is_too_large_or_not_wanted(
    bench: Bench, script: Script, site: Site, tmp_path: Path
) -> None:
    async with sandboxed(bench, site, tmp_path, python3=MARKITDOWN):
        reading(bench, site, max_document_mb=0.01)
        (large,) = await read(bench, script, site.url("/pdf"))
        assert "The document is larger than the 0.01 MB that are read." in large
        reading(bench, site, max_document_mb=0)
        (unwanted,) = await answers(bench, script, calls(("web_fetch", {"url": site.url("/pdf")}), ids=["b"]), run="r2")
        assert "This is a PDF of 0.1 MB" in unwanted


@bubblewrap
async def test_a_page_that_needs_javascript_is_opened_in_the_browser(
    bench: Bench, script: Script, site: Site, tmp_path: Path
) -> None:
    reading(bench, site, browser="auto")
    url = site.url("/script?a='$(id)'")
    async with sandboxed(bench, site, tmp_path, chromium=CHROMIUM, python3=MARKITDOWN):
        (told,) = await read(bench, script, url)
    assert "title: App" in told
    assert "The script wrote line 9" in told
    assert "uid=" not in told
    assert [asked.path for asked in site.asked] == ["/robots.txt", "/script"]


@bubblewrap
@pytest.mark.parametrize("browser", ["auto", "off"])
async def test_a_browser_that_fails_or_is_off_is_no_help(
    bench: Bench, script: Script, site: Site, tmp_path: Path, browser: str
) -> None:
    reading(bench, site, browser=browser)
    failing = "#!/bin/sh\nexit 1\n" if browser == "auto" else CHROMIUM
    async with sandboxed(bench, site, tmp_path, chromium=failing, python3=MARKITDOWN):
        (told,) = await read(bench, script, site.url("/script"))
    assert "The page has no text; perhaps a script would write it" in told


@pytest.mark.parametrize(
    ("kind", "url", "suffix"),
    [
        ("application/pdf", "https://a.example/x", ".pdf"),
        ("application/octet-stream", "https://a.example/x.PDF?y", ".pdf"),
        ("application/zip", "https://a.example/x.docx", ".docx"),
        ("", "https://a.example/x.xlsx", ".xlsx"),
        ("application/msword", "https://a.example/x", ".doc"),
        ("text/html", "https://a.example/x.pdf", ""),
        ("application/zip", "https://a.example/x.zip", ""),
        ("", "https://a.example/x.html", ""),
    ],
)
def test_what_a_document_is(kind: str, url: str, suffix: str) -> None:
    assert document_suffix(kind, url) == suffix
