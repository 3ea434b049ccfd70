"""The configuration over real HTTP: masked, checked with a change, written only from this machine."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any

import pytest

from bot.http.resources.configuration import Masked
from tests.bot.http.test_http import gateway
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
    with pytest.raises(LookupError):
        masked.restored("x: __masked_99__")


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
