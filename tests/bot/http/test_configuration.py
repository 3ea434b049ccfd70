"""The configuration over real HTTP: masked, checked with a change, written only from this machine."""

from __future__ import annotations

import asyncio
import signal
import stat
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml

from bot.control.server import ask, connection
from bot.http.resources.configuration import Masked, Misplaced, Withheld
from tests.bot.http.test_http import SECONDS, Process, free_port, gateway
from tests.bot.http.test_signing import signed_in, token_of

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "0123456789abcdef0123456789abcdef"


def test_secrets_are_masked_and_come_back() -> None:
    text = (
        f"http:\n  metrics_token: {TOKEN}\n  # old_token: 55:former\nmodels:\n  - api_key: $KEY\n"
        "summarization: {max_tokens: 400}\nurl: https://user:pa55word@example.org/\n"
    )
    masked = Masked(text, [TOKEN, "pa55word", "abc"])
    for secret in (TOKEN, "pa55word", "former"):
        assert secret not in masked.text
    assert "api_key: $KEY" in masked.text
    assert "max_tokens: 400" in masked.text
    assert masked.restored(masked.text) == text
    with pytest.raises(Misplaced):
        masked.restored("x: __masked_99__")


WRITTEN = {
    "block": ("KEY: |\n    first line of it\n    second line of it\n", "first line of it\nsecond line of it\n"),
    "folded": ("api_key: >-\n    folded-one\n    folded-two", "folded-one folded-two"),
    "escaped": ('api_key: "abc\\"defgh"', 'abc"defgh'),
    "escaped elsewhere": ('url: "abc\\"\\u0064efgh"', 'abc"defgh'),
    "doubled": ("url: 'it''s a secret one'", "it's a secret one"),
    "two lines": ("url: secret of\n    two lines", "secret of two lines"),
    "dollar": ("url: pa$$word-of-it", "pa$word-of-it"),
    "list": ("api_keys: [aaaa-1111, bbbb-2222]", "aaaa-1111"),
    "default": ("api_key: ${SOME:-fallback-value}", "fallback-value"),
    "argument": ("args: [run, --api-key=aaaa-1111, 'x']", "aaaa-1111"),
    "empty": ("api_key: ''\n  token: aaaa-1111", "aaaa-1111"),
    "comment": ("x: 1  # once secret-in-a-comment", "secret-in-a-comment"),
    "windows": (
        "api_key: |\r\n    first line of it\r\n    second line\r\n  x: 1\r\n",
        "first line of it\nsecond line\n",
    ),
}


@pytest.mark.parametrize("written", WRITTEN)
def test_a_secret_is_masked_however_it_is_written(written: str) -> None:
    line, secret = WRITTEN[written]
    text = f"before: 1\n# a comment\nsection:\n  {line}\n  after: {{b: 2}}\n\nlast: 3"
    masked = Masked(text, [secret])
    for part in (secret, *secret.split()):
        assert len(part) < 6 or part not in masked.text
    assert "__masked_1__" in masked.text
    for kept in ("before: 1", "# a comment", "after: {b: 2}", "last: 3"):
        assert kept in masked.text
    assert masked.restored(masked.text) == text
    assert masked.restored(masked.text + "\nmore: 4\n") == text + "\nmore: 4\n"


@pytest.mark.parametrize(
    "text", ["a: [\nb: secret-value\n", "secret-value: 1\n", "x: __masked_1__\n", "&a secret-value: 1"]
)
def test_a_text_whose_secrets_cannot_be_masked_is_withheld(text: str) -> None:
    with pytest.raises(Withheld):
        Masked(text, ["secret-value"])


@pytest.mark.parametrize(
    "changed",
    [
        "{0}__masked_1__: 1\n",
        "{0}other: __masked_1__\n",
        "{0}# __masked_1__\n",
        "{0}__masked_2__: 1\n",
        "{0}other: [{{__masked_1__: 1}}]\n",
        "{0}? [__masked_1__]\n: 1\n",
        "%X __masked_1__\n---\n{0}",
        "x:\n            api_key: __masked_2__\napi_key: __masked_1__\n",
        "old: __masked_3__\n{0}",
    ],
)
def test_a_mark_stands_only_where_it_was_given_out(changed: str) -> None:
    masked = Masked("api_key: one-secret\nx:\n  api_key: |\n    two\n    three\n# token: four-five\n", [])
    assert "__masked_3__" in masked.text
    with pytest.raises(Misplaced):
        masked.restored(changed.format(masked.text))


def test_what_is_told_about_a_text_has_the_marks_in_place_of_its_secrets() -> None:
    masked = Masked('api_key: |\n  first line\n  second line\ntoken: "abc\\"defgh"\n', ["from-elsewhere"])
    told = masked.hidden('first line: unknown; second line; abc"defgh; abc\\"defgh; from-elsewhere; kept')
    assert told == "__masked_1__: unknown; __masked_1__; __masked_2__; __masked_2__; __masked__; kept"


async def test_a_change_is_checked_compared_and_applied_from_this_machine_alone(tmp_path: Path) -> None:
    async with gateway(tmp_path, metrics_token=TOKEN) as running:
        await running.ready()
        client, file = running.client, tmp_path / "config.yaml"
        file.chmod(0o640)
        program = await token_of(tmp_path, "ops", "read", "admin", "operate", person="web:local")
        csrf = await signed_in(running, tmp_path)
        found = (await client.get("/api/configuration")).json()
        assert (found["file"], found["faults"], found["writable"]) == ("config.yaml", [], True)
        assert TOKEN not in found["text"]
        assert "metrics_token: __masked_1__" in found["text"]

        async def sent(what: str, text: str, base: str = found["base"], **headers: str) -> Any:
            body = {"text": text, "base": base}
            return await client.post(f"/api/configuration/{what}", json=body, headers=headers or csrf)

        changed = found["text"] + "timezone: Europe/Berlin\nlimits: {concurrent_runs: 7}\n"
        checked = (await sent("check", changed)).json()
        assert (checked["valid"], sorted(checked["applied"])) == (True, ["limits", "timezone"])
        assert "+timezone: Europe/Berlin" in checked["diff"]
        faulty = (await sent("check", changed + "sandbx: {}\n")).json()
        assert (faulty["valid"], faulty["faults"][0]["key"]) == (False, "sandbx")
        strange = (await sent("check", found["text"] + "locale: __masked_9__\n")).json()
        assert (strange["valid"], "__masked_9__" in strange["faults"][0]["message"]) == (False, True)
        for moved in ("__masked_1__: 1\n", "old: __masked_1__\n", "# __masked_1__\n"):
            told = await sent("check", found["text"] + moved)
            assert (told.json()["valid"], TOKEN in told.text) == (False, False)
        account = found["text"].replace("channels:\n", "channels:\n  __masked_1__: {type: console}\n")
        told = await sent("check", account)
        assert (told.json()["valid"], TOKEN in told.text) == (False, False)
        assert "only where it was issued" in told.text
        assert (await sent("check", changed, base="0" * 32)).status_code == 409
        assert "timezone" not in file.read_text(), "a check writes nothing"

        client.cookies.clear()
        refused = await client.post(
            "/api/configuration/apply", json={"text": changed, "base": found["base"]}, headers=program
        )
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_from_here")
        assert "timezone" not in file.read_text()

        csrf.update(await signed_in(running, tmp_path))
        page = await client.get("/configuration")
        assert TOKEN not in page.text
        assert "__masked_1__" in page.text
        applied = (await sent("apply", changed)).json()
        assert applied["kept"] is False, applied
        assert "limits" in applied["text"]
        assert f"metrics_token: {TOKEN}" in file.read_text()
        assert stat.S_IMODE(file.stat().st_mode) == 0o640
        assert (await sent("apply", changed)).status_code == 409, "the file is another one now"


async def test_a_file_that_is_no_yaml_is_withheld_and_its_fault_is_told(tmp_path: Path) -> None:
    async with gateway(tmp_path) as running:
        await running.ready()
        csrf, file = await signed_in(running, tmp_path), tmp_path / "config.yaml"
        file.write_text(f"{file.read_text()}models:\n  - api_key: |\n      {TOKEN}\n    - [\n")
        told = await running.client.get("/api/configuration")
        found = told.json()
        assert TOKEN not in told.text + (await running.client.get("/configuration")).text
        assert (found["text"], found["writable"], len(found["faults"])) == ("", False, 2)
        assert "withheld" in found["faults"][0]["message"]
        assert found["faults"][1]["line"]
        body = {"text": "data_dir: data\n", "base": found["base"]}
        refused = await running.client.post("/api/configuration/check", json=body, headers=csrf)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "withheld")


async def test_the_listener_moves_again_and_again_whoever_asks_for_it(tmp_path: Path) -> None:
    """Even by a request that the listener itself answers."""
    async with gateway(tmp_path) as first, AsyncExitStack() as clients:
        await first.ready()
        running, csrf, file = first, await signed_in(first, tmp_path), tmp_path / "config.yaml"

        async def moved(number: int) -> Process:
            client = httpx.AsyncClient(base_url=f"http://127.0.0.1:{number}", trust_env=False, timeout=SECONDS)
            there = Process(first.process, await clients.enter_async_context(client), first.lines)
            await there.ready()
            return there

        for _ in range(2):
            found = (await running.client.get("/api/configuration")).json()
            old, port = running.client.base_url.port, free_port()
            body = {"text": found["text"].replace(str(old), str(port)), "base": found["base"]}
            answer = await running.client.post("/api/configuration/apply", json=body, headers=csrf)
            assert (answer.status_code, answer.json()) == (200, {"kept": False, "text": "now in force: http"})
            with pytest.raises(httpx.ConnectError):
                await running.ask("/healthz")
            running = await moved(port)
            csrf = await signed_in(running, tmp_path)

        found = (await running.client.get("/api/configuration")).json()
        text = found["text"].replace("http:\n", f"http:\n  metrics_token: {TOKEN}\n")
        body = {"text": text, "base": found["base"]}
        assert (await running.client.post("/api/configuration/apply", json=body, headers=csrf)).status_code == 200
        assert (await running.ask("/metrics")).status_code == 401, "at the same address with other settings"

        def written(number: int) -> None:
            settings = yaml.safe_load(file.read_text())
            settings["http"]["listen"] = f"127.0.0.1:{number}"
            file.write_text(yaml.safe_dump(settings))

        written(port := free_port())
        async with connection(tmp_path / "data") as (reader, writer):
            assert (await ask(reader, writer, "reload"))["text"] == "now in force: http"
        await moved(port)
        written(port := free_port())
        await moved(port)  # by the watcher alone
        first.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(first.process.wait(), SECONDS) == 0
    assert not [line for line in first.lines if "Traceback" in line or "left behind" in line]
