"""Code and its documentation: what there is to document, and what is documented that is not so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.skills.scripts import Bench

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "Makefile": "test:\n\tpytest\n",
    "pyproject.toml": '[project]\nname = "shop"\n\n[project.scripts]\nshop = "shop.cli:main"\n',
    "package.json": '{"scripts": {"build": "tsc"}}',
    "shop/cart.py": '''"""Carts of customers."""
import os

LIMIT = os.environ["SHOP_LIMIT"]


class Cart(dict):
    def add(self, item: str, count: int = 1) -> None:
        """Put items in."""

    def _hidden(self): ...


async def price(cart: Cart) -> float:
    return 0.0
''',
    "shop/cli.py": """import argparse

argparse.ArgumentParser().add_argument("--dry-run")
if __name__ == "__main__":
    pass
""",
    "shop/broken.py": "def f(:\n",
    "web/app.ts": "export async function start() {}\nexport interface Options {}\n",
    "node_modules/x/index.js": "export function never() {}\n",
}
DOCUMENT = """# Guide

See [the carts](#carts), [nothing](#gone), [a page](missing.md), [home](https://example.org).

## Carts

`Cart.add(item)` and `price(cart)`, but not `discount(cart)`. Read `shop/cart.py`, not `shop/till.py`.
Run `shop --dry-run` or `shop --force`.

```bash
make test
make deploy
pip install --no-deps shop
shop --verbose
```

```python
from shop import Cart
Cart(.add
```

```json
{"a": 1,}
```

```python
cart.add(...)  # left out
```
"""
WRONG = (
    "line 3: the link #gone: there is no heading #gone",
    "line 3: the link missing.md leads nowhere",
    "line 7: `discount(cart)`: nothing in the code is called discount",
    "line 7: `shop/till.py`: there is no such file",
    "line 8: --force: the code does not have this option",
    "line 10: make deploy: the Makefile does not have it",
    "line 10: --verbose: the code does not have this option",
    "line 17: the example is no Python",
    "line 22: the example is no JSON",
)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench("code-documentation", tmp_path)
    for name, text in FILES.items():
        (tmp_path / "code" / name).parent.mkdir(parents=True, exist_ok=True)
        made.write(f"code/{name}", text)
    return made


def test_what_there_is_to_document(bench: Bench) -> None:
    assert "3 names, 4 ways in" in bench.good("inventory", "code", "-o", "inventory.md")
    text = (bench.folder / "inventory.md").read_text()
    for line in (
        "- with a docstring: 1 of 3 public (33 %)",
        "- Makefile: make test",
        "- pyproject.toml: command shop",
        "- package.json: npm run build",
        "- shop/cli.py: runs as a program",
        "- `SHOP_LIMIT` (shop/cart.py)",
        "- shop/cart.py: Carts of customers.",
        "- class `Cart(dict)`: **no docstring**",
        "- method `Cart.add(self, item: str, count: int=1) -> None`",
        "- function `price(cart: Cart) -> float`: **no docstring**",
        "- exports `start`, `Options`",
        "BROKEN: shop/broken.py: line 1: invalid syntax",
    ):
        assert line in text.splitlines()
    assert "never" not in text
    assert "is no folder" in bench.bad("inventory", "code/Makefile", "-o", "x.md")


def test_what_is_documented_and_not_so(bench: Bench) -> None:
    bench.write("guide.md", DOCUMENT)
    lines = bench.bad("check_docs", "guide.md", "--code", "code").splitlines()
    for wrong in WRONG:
        assert any(line.startswith(f"guide.md: {wrong}") for line in lines), wrong
    assert lines[-1] == f"1 documents, {len(WRONG)} findings."
    bench.write("good.md", "# Good\n\n`price(cart)` is in `shop/cart.py`.\n")
    assert "1 documents, 0 findings." in bench.good("check_docs", "good.md", "--code", "code")
