"""Who is listed: exact immutable ids, nobody by default, everybody only on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bot.settings import AccessSettings
from tests.bot.settings_files import CHANNELS, TOKEN, found, settings_of
from tests.tables import table

if TYPE_CHECKING:
    from pathlib import Path


def test_nobody_by_default() -> None:
    access = AccessSettings()
    assert (access.dm, access.allow, access.admins, access.groups.allow) == ("pairing", (), (), ())
    assert not access.is_public


@pytest.mark.parametrize("nobody", ["null", "[]", '""', "''"])
def test_all_that_is_empty_means_nobody(tmp_path: Path, nobody: str) -> None:
    text = CHANNELS + f"access: {{allow: {nobody}, admins: {nobody}, groups: {{allow: {nobody}}}}}\n"
    access = settings_of(tmp_path, text).access
    assert (access.allow, access.admins, access.groups.allow) == ((), (), ())


@pytest.mark.parametrize("identity", ["telegram:12345", "telegram:-100123", "telegram:T01/U02", "telegram:ou_x:y"])
def test_exact_ids_are_taken_as_they_are(tmp_path: Path, identity: str) -> None:
    assert settings_of(tmp_path, CHANNELS + f'access: {{allow: ["{identity}"]}}\n').access.allow == (identity,)


@table(
    ("entry", "message"),
    [
        ('"@name"', "names change hands"),
        ('"telegram:@name"', "names change hands"),
        ("12345", 'has no account prefix; write it as "telegram:<id>"'),
        ("true", "has no account prefix"),
        ("12.5", "has no account prefix"),
        ('"12345"', 'should be "account:id"'),
        ('"telegram:"', 'should be "account:id"'),
        ('":12345"', 'should be "account:id"'),
        ('" telegram:12345"', "a space"),
        ('"telegram: 12345"', "a space"),
        ('"telegram:12345\\n"', "a space"),
        ('"telegram:12\\u200b345"', "invisible"),
        ('"telegram:１２"', "look-alike"),
        ('"telegram:012345"', "leading zero"),
        ('"telegram:-0100"', "leading zero"),
        ('"telegram:+12345"', "plus sign"),
        ("{telegram: 12345}", "remove the space after the colon"),
        ('"telegrm:12345"', "belongs to an account that is not configured; did you mean telegram?"),
        ('"telegram:*"', "does not accept a pattern"),
        ('""', 'should be "account:id"'),
    ],
)
def test_what_is_no_exact_id_is_refused(tmp_path: Path, entry: str, message: str) -> None:
    for key, text in {
        "access.allow[0]": f"access: {{allow: [{entry}]}}",
        "access.admins[0]": f"access: {{admins: [{entry}]}}",
        "access.groups.allow[0]": f"access: {{groups: {{allow: [{entry}]}}}}",
    }.items():
        assert message in found(tmp_path, CHANNELS + text + "\n")[key]


@pytest.mark.parametrize("opened", ["dm: open", 'allow: ["*"]', 'groups: {allow: ["*"]}'])
def test_everybody_only_on_purpose(tmp_path: Path, opened: str) -> None:
    assert "i_accept_public: true" in found(tmp_path, CHANNELS + f"access: {{{opened}}}\n")["access"]
    assert settings_of(tmp_path, CHANNELS + f"access: {{{opened}, i_accept_public: true}}\n").access.is_public


def test_nobody_becomes_admin_by_a_star(tmp_path: Path) -> None:
    text = CHANNELS + 'access: {admins: ["*"], i_accept_public: true}\n'
    assert "does not accept *" in found(tmp_path, text)["access.admins[0]"]


def test_an_accounts_own_list_is_of_that_account(tmp_path: Path) -> None:
    text = f"""
    channels:
      telegram:
        token: "{TOKEN}"
        access: {{allow: [12, "13", "telegram:14"], admins: [12], groups: {{allow: [-100]}}}}
    """
    access = settings_of(tmp_path, text).access_for("telegram")
    assert access.allow == ("telegram:12", "telegram:13", "telegram:14")
    assert (access.admins, access.groups.allow) == (("telegram:12",), ("telegram:-100",))


def test_an_account_opens_only_by_its_own_acceptance(tmp_path: Path) -> None:
    text = f"""
    channels: {{telegram: {{token: "{TOKEN}", access: {{dm: open}}}}}}
    access: {{i_accept_public: true}}
    """
    assert "i_accept_public: true" in found(tmp_path, text)["channels.telegram.access"]


def test_an_account_that_refuses_the_public_does_not_inherit_it(tmp_path: Path) -> None:
    text = f"""
    channels: {{telegram: {{token: "{TOKEN}", access: {{i_accept_public: false}}}}}}
    access: {{dm: open, i_accept_public: true}}
    """
    assert "close it here too" in found(tmp_path, text)["channels.telegram.access.i_accept_public"]
