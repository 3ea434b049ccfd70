"""The sections `web`, `tools` and `tool_groups`: what is told of them, and what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.settings import load
from bot.settings.summary import describe
from tests.bot.settings_files import CHANNELS, found

if TYPE_CHECKING:
    from pathlib import Path


def described(folder: Path, text: str) -> list[str]:
    file = folder / "config.yaml"
    file.write_text(CHANNELS + text)
    return describe(load(file, {})).splitlines()


def test_nothing_is_reached_by_default(tmp_path: Path) -> None:
    assert "web       no search; pages are not read" in described(tmp_path, "")


def test_what_is_on_is_shown_without_its_key(tmp_path: Path) -> None:
    lines = described(
        tmp_path,
        "web: {search: {provider: tavily, api_key: tvly-123}, fetch: {enabled: true, allow: [wiki.corp, 10.0.0.0/8]}}\n"
        "tools: [{use: 'json:loads', group: a, name: reader}, {use: 'json:dumps', group: b}]\n"
        "tool_groups: [a]\n",
    )
    shown = "web       search: tavily; pages of the public internet are read, and what 2 of web.fetch.allow open"
    assert shown in lines
    assert "tool      json:loads as reader" in lines
    assert not any("tvly-123" in line or "dumps" in line for line in lines)


def test_the_key_is_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CHANNELS + "web: {search: {provider: tavily, api_key: tvly-123}}\n")
    assert "tvly-123" in load(file, {}).secrets()


def test_faults_name_their_keys(tmp_path: Path) -> None:
    text = (
        CHANNELS
        + """\
web:
  search: {provider: searxng, base_url: searx.corp}
  fetch: {enabled: true, allow: ["http://wiki.corp"]}
tools:
  - {use: no_such_package:tool}
  - {use: json, group: files}
tool_groups: [flies]
"""
    )
    problems = found(tmp_path, text)
    assert "has no scheme" in problems["web.search.base_url"]
    assert "should be host names" in problems["web.fetch.allow"]
    assert "its Python package is not installed" in problems["tools[0].use"]
    assert "tools[1].use" in problems
    assert "did you mean files?" in problems["tool_groups[0]"]


def test_a_provider_needs_its_key(tmp_path: Path) -> None:
    problems = found(tmp_path, CHANNELS + "web: {search: {provider: tavily}}\n")
    assert "tavily also needs api_key" in problems["web.search"]


def test_several_engines_are_shown_and_their_keys_are_secrets(tmp_path: Path) -> None:
    engines = "web: {search: {engines: [{use: brave, api_key: BSA-123}, {use: wikipedia}, {use: 'json:Engine'}]}}\n"
    lines = described(tmp_path, engines)
    assert "web       search: brave, wikipedia, json:Engine; pages are not read" in lines
    assert "BSA-123" in load(tmp_path / "config.yaml", {}).secrets()


def test_faults_of_engines_name_their_keys(tmp_path: Path) -> None:
    text = """\
web:
  search:
    engines:
      - {use: brave}
      - {use: gogle}
      - {use: "no_such_package:Engine"}
      - {use: searxng, base_url: searx.corp}
"""
    problems = found(tmp_path, CHANNELS + text)
    assert "brave also needs api_key" in problems["web.search.engines[0]"]
    assert "should be one of duckduckgo, " in problems["web.search.engines[1].use"]
    assert "its Python package is not installed" in problems["web.search.engines[2].use"]
    assert "has no scheme" in problems["web.search.engines[3].base_url"]
