"""Pages are checked and made one file: web-design-review, frontend-design."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from tests.skills.scripts import Bench

if TYPE_CHECKING:
    from pathlib import Path

GOOD = """<!doctype html><html lang="en"><head><title>Trains</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="css/style.css">
<script src="app.js" defer></script></head><body><main><h1>Trains of today</h1>
<img src="a.png" alt="A train" width="10" height="10">
<form><label>From <input name="from"></label><button>Find</button></form>
<a href="#t">Timetable</a><table id="t"><tr><th>Time</th></tr></table></main></body></html>"""
STYLE = """@import "base.css";
:root { --ink: #1d2733; --ground: #faf7f2 }
body { color: var(--ink); background: var(--ground); max-width: 65ch }
a:focus-visible { outline: 3px solid currentColor }
h1 { background-image: url(../a.png) }
@media (prefers-reduced-motion: reduce) { * { animation: none } }
"""
BAD = """<html><head><meta name="viewport" content="user-scalable=no"><style>
.pale { color: #999; background-color: #fff } .hint { color: #aab } .tiny { font-size: 10px }
:focus { outline: none } .box { width: 900px } a { transition: color 1s }
</style></head><body><h1>A</h1><h3>B</h3><h2></h2><img src="x.png">
<input type="email" placeholder="Mail"><button></button>
<div onclick="go()">Go</div><a href="/x"></a><a href="/y">click here</a><a href="#gone">There</a><p id="i"></p>
<p id="i"></p>
<table><tr><td>1</td></tr></table><video autoplay></video><p tabindex="3"></p><script src="https://cdn.example.org/a.js"></script>
</body></html>"""
ERRORS = (
    "<html> has no lang",
    "has no <title>",
    "forbids zooming",
    "an empty heading",
    "no alt",
    "a field without a label",
    "a button without a name",
    "cannot be reached by keyboard",
    "a link without a name",
    "leads nowhere",
    "ids that stand there twice: i",
    "plays by itself",
    "contrast 2.8:1, needs 4.5:1: .pale",
    "needs 4.5:1, on the page's ground: .hint",
    "takes the focus ring away",
)
WARNINGS = (
    "jumps from h1 to h3",
    "without width and height",
    '"click here" does not say',
    "has no <main>",
    "a table without <th>",
    "tabindex above 0",
    "text of 10 pixels: .tiny",
    "width 900px does not fit on a phone: .box",
    "no max-width",
    "moves, and does not ask",
    "loads 1 things from elsewhere",
)
PIXEL = b"\x89PNG\r\n\x1a\n"


def page(folder: Path) -> None:
    (folder / "page" / "css").mkdir(parents=True)
    (folder / "page" / "index.html").write_text(GOOD)
    (folder / "page" / "css" / "style.css").write_text(STYLE)
    (folder / "page" / "css" / "base.css").write_text("p { margin: 0 }")
    (folder / "page" / "app.js").write_text("if (1 < 2 && 3) document.title = '</script>';")
    (folder / "page" / "a.png").write_bytes(PIXEL)


def test_what_shuts_people_out_is_named(tmp_path: Path) -> None:
    bench = Bench("web-design-review", tmp_path)
    bench.write("bad.html", BAD)
    lines = bench.bad("check_page", "bad.html").splitlines()
    for level, texts in (("error", ERRORS), ("warning", WARNINGS)):
        for text in texts:
            assert any(line.startswith(f"{level}: ") and text in line for line in lines), text
        assert sum(line.startswith(level) for line in lines) == len(texts)
    page(tmp_path)
    assert bench.good("check_page", "page/index.html", "page/css/style.css") == "0 errors, 0 warnings.\n"


def test_a_page_becomes_one_file(tmp_path: Path) -> None:
    bench = Bench("frontend-design", tmp_path)
    page(tmp_path)
    bench.good("bundle", "page/index.html", "-o", "out/page.html")
    html = (tmp_path / "out" / "page.html").read_text()
    picture = f"data:image/png;base64,{b64encode(PIXEL).decode()}"
    assert html.count(picture) == 2
    assert "p { margin: 0 }" in html
    assert html.index("if (1 < 2 && 3) document.title = '<\\/script>'") > html.index(
        "</main>"
    )  # as late as a deferred script runs
    assert "stylesheet" not in html
    (tmp_path / "page" / "a.png").unlink()
    assert "not there: ../a.png, a.png" in bench.bad("bundle", "page/index.html", "-o", "out/other.html")
    (tmp_path / "secret.css").write_text("secret")
    bench.write("page/out.html", '<link rel="stylesheet" href="../secret.css"><img src="https://a.example/x.png">')
    assert "not there: ../secret.css" in bench.bad("bundle", "page/out.html", "-o", "out/other.html")
    bench.write("page/out.html", '<img src="https://a.example/x.png">')
    said = bench.good("bundle", "page/out.html", "-o", "out/other.html")
    assert "note: still loads from elsewhere, and lacks it without a network: https://a.example/x.png" in said
