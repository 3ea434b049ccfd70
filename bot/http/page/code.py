"""Highlighted source text: HTML with a class for each kind of token, by Pygments, which is loaded at the first use."""

from __future__ import annotations

import html
import time
from functools import lru_cache
from pathlib import PurePath

MOST_CHARACTERS = 20_000
LONGEST_LINE = 1_000
"""Longest line in characters; a longer one was made by a machine, and some patterns take quadratic time."""
SECONDS = 0.15
"""Processor time for one text; if that is not enough, the text is left plain."""
LOOKED_AT = 256
"""Tokens between two checks of the clock."""

LANGUAGES = frozenset(
    """apache awk bash batch c c# c++ clojure cmake cpp csharp css dart diff docker dockerfile elixir erlang
    fish fortran go graphql groovy haskell html http ini java javascript js json json5 jsonc jsx julia kotlin
    latex less lua make makefile markdown matlab md nginx nix objective-c ocaml perl php powershell properties
    proto protobuf ps1 py py3 pycon python python3 r rb rs ruby rust sass scala scheme scss sh shell sql svelte
    svg swift systemd tcl terraform tex toml ts tsx typescript vb.net vim vue xml yaml yml zig zsh""".split()  # noqa: SIM905  # quotes for each read worse
)
"""Names of languages as people write them after a fence; text in any other is left plain."""
SAME = {"jsonc": "json5", "svg": "xml", "py3": "python", "svelte": "html", "proto": "protobuf"}
"""Names unknown to Pygments, mapped to known ones."""
SUFFIXES = {
    "bat": "batch",
    "cc": "cpp",
    "cfg": "ini",
    "conf": "ini",
    "cs": "csharp",
    "geojson": "json",
    "h": "c",
    "hpp": "cpp",
    "htm": "html",
    "ipynb": "json",
    "jl": "julia",
    "kt": "kotlin",
    "mjs": "js",
    "patch": "diff",
    "pl": "perl",
    "tf": "terraform",
    "xhtml": "html",
}
"""File suffixes that are not names of languages."""
KINDS = {
    "Token.Keyword": "k",
    "Token.Keyword.Constant": "n",
    "Token.Keyword.Type": "b",
    "Token.Operator.Word": "k",
    "Token.Name.Attribute": "a",
    "Token.Name.Builtin": "b",
    "Token.Name.Class": "f",
    "Token.Name.Constant": "n",
    "Token.Name.Decorator": "a",
    "Token.Name.Entity": "n",
    "Token.Name.Exception": "b",
    "Token.Name.Function": "f",
    "Token.Name.Tag": "t",
    "Token.Name.Variable": "a",
    "Token.Literal.String": "s",
    "Token.Literal.String.Escape": "n",
    "Token.Literal.String.Interpol": "n",
    "Token.Literal.Number": "n",
    "Token.Literal.Date": "n",
    "Token.Comment": "c",
    "Token.Comment.Preproc": "a",
    "Token.Comment.PreprocFile": "s",
    "Token.Generic.Deleted": "d",
    "Token.Generic.Inserted": "i",
    "Token.Generic.Heading": "k",
    "Token.Generic.Subheading": "f",
    "Token.Generic.Prompt": "c",
    "Token.Generic.Output": "c",
}
"""Pygments' token types, mapped to the letter of the class, `tok-k` and so on; others have the colour of text."""


def coloured(language: str, text: str) -> str:
    """The escaped HTML of a source text; without colours where the language is unknown or the text is too long."""
    name = language.strip().casefold()
    if name not in LANGUAGES or len(text) > MOST_CHARACTERS or max(map(len, text.split("\n"))) > LONGEST_LINE:
        return html.escape(text, quote=False)
    return _coloured(name, text) or html.escape(text, quote=False)


def language_of_file(name: str) -> str:
    """The language implied by a file's name, "" for none that is known."""
    path = PurePath(name.casefold())
    suffix = path.suffix.removeprefix(".") or path.name
    suffix = SUFFIXES.get(suffix, suffix)
    return suffix if suffix in LANGUAGES else ""


@lru_cache(maxsize=128)
def _coloured(language: str, text: str) -> str | None:
    """The coloured HTML, None where it took too long. Cached, as a growing answer requests its code with each word."""
    # Imported here: a gateway whose answers have no code does not need it.
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(SAME.get(language, language))
    except ClassNotFound:  # this version of Pygments does not know it yet
        return None
    until = time.thread_time() + SECONDS
    pieces: list[str] = []
    open_kind, held = "", ""
    for count, (_, token, value) in enumerate(lexer.get_tokens_unprocessed(text)):
        if count % LOOKED_AT == LOOKED_AT - 1 and time.thread_time() > until:
            return None
        kind = _kind(token)
        if kind != open_kind and value.strip():  # blanks belong to the preceding token
            pieces.append(_span(open_kind, held))
            open_kind, held = kind, ""
        held += value
    return "".join((*pieces, _span(open_kind, held)))


def _span(kind: str, text: str) -> str:
    shown = html.escape(text, quote=False)
    return f'<span class="tok-{kind}">{shown}</span>' if kind and shown else shown


@lru_cache(maxsize=512)
def _kind(token: object) -> str:
    name = str(token)
    while name and name not in KINDS:
        name = name.rpartition(".")[0]
    return KINDS.get(name, "")
