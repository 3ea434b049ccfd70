"""The rules as a table: what is allowed, denied, asked; above all that no pattern allows more than it says."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from harness.context import Speaker
from harness.guardrails.config import GuardrailSettings, RuleSettings
from harness.guardrails.port import GuardRequest
from harness.guardrails.rules import Rules
from tests.tables import table

MEMBER = Speaker(id="telegram:1", display_name="Ann")
ADMIN = Speaker(id="telegram:2", display_name="Bob", is_admin=True)
READ_ONLY = {"mcp": {"server": "s", "name": "n", "read_only": True, "destructive": False, "digest": "d"}}
HARMFUL = {"mcp": {"server": "s", "name": "n", "read_only": False, "destructive": True, "digest": "d"}}


def rules(*given: dict[str, Any], **changes: Any) -> Rules:
    return Rules(GuardrailSettings(rules=tuple(RuleSettings(**rule) for rule in given), **changes))


def decided(by: Rules, tool: str, args: dict[str, Any] | None = None, **about: Any) -> str:
    values: dict[str, Any] = {
        "tool": tool,
        "args": args or {},
        "speaker": MEMBER,
        "is_group": False,
        "account": "telegram",
        "conversation": "telegram:1",
        "isolation": "full",
    }
    return by.decided(GuardRequest(**(values | about))).decision


@table(
    ("tool", "about", "expected"),
    [
        ("read_file", {}, "allow"),
        ("write_file", {}, "allow"),
        ("ask_clarification", {}, "allow"),
        ("bash", {}, "allow"),
        ("bash", {"isolation": "restricted"}, "allow"),
        ("bash", {"isolation": "none"}, "ask"),
        ("bash", {"isolation": "none", "speaker": ADMIN}, "ask"),
        ("read_file", {"isolation": "none"}, "allow"),
        ("issues_list", {"metadata": READ_ONLY}, "allow"),
        ("issues_delete", {"metadata": HARMFUL}, "ask"),
        ("issues_delete", {"metadata": {"mcp": {"server": "s"}}}, "ask"),
    ],
)
def test_without_rules(tool: str, about: dict[str, Any], expected: str) -> None:
    assert decided(rules(), tool, {"command": "ls"}, **about) == expected


GIT = rules({"tool": "bash", "command": "git *", "decision": "allow"}, {"tool": "bash", "decision": "ask"})


@table(
    "command",
    [
        "git",
        "git status",
        "git log --oneline -5",
        "  git   status  ",
        "git status # && rm -rf /",
        "git commit -m 'one && two; three'",
        'git commit -m "a | b"',
        "git add . && git status",
        "git log | git shortlog",
        "git status > /dev/null 2>&1",
        "git status\ngit diff",
        "(git status)",
        "git diff; git diff || git status",
    ],
)
def test_a_pattern_allows_the_program_that_it_names(command: str) -> None:
    assert decided(GIT, "bash", {"command": command}) == "allow"


@table(
    "command",
    [
        "git x && rm -rf a",
        "git x; rm a",
        "git x;rm a",
        "git x & rm a",
        "git x &<<'E' rm a",
        "git x &<<<'' rm a",
        "git x &<a rm a",
        "git x &<>a rm a",
        "git x || rm a",
        "git x | sh",
        "git x |& sh",
        "git x\nrm a",
        "git x\r\nrm a",
        "git x\x0brm a",
        "git x # comment\nrm a",
        "git x \\\n&& rm a",
        "git $(rm a)",
        "git `rm a`",
        'git "$(rm a)"',
        "git <(rm a)",
        "git x > >(rm a)",
        "git x > /etc/passwd",
        "git x >> ~/.bashrc",
        "git x >&2a",
        "git x >&2\\",
        "git x < /etc/passwd",
        "git x <<< $(rm a)",
        "git x << E\n$(rm a)\nE",
        "git $X",
        "X=rm; git $X",
        "GIT_PAGER='rm a' git log",
        "env GIT_PAGER=rm git log",
        "sudo git x",
        "xargs git",
        "bash -c 'git x'",
        "eval git x",
        "git() { rm a; }; git x",
        "function git { rm a; }; git x",
        "alias git=rm; git x",
        "/tmp/git x",
        "./git x",
        "gitx",
        "rm a",
        "{ git x; rm a; }",
        "(git x; rm a)",
        "if git x; then rm a; fi",
        "! rm a",
        "git 'x",
        'git "x',
        "git $(",
        "",
        "   ",
        "# only a comment",
    ],
)
def test_and_nothing_beside_it(command: str) -> None:
    assert decided(GIT, "bash", {"command": command}) == "ask"


@pytest.mark.parametrize("args", [{}, {"command": None}, {"command": ["git", "x"]}, {"command": 5}])
def test_what_is_no_command_is_not_allowed_by_one(args: dict[str, Any]) -> None:
    assert decided(GIT, "bash", args) == "ask"


@table(
    ("command", "expected"),
    [
        ("rm -rf a", "deny"),
        ("ls && rm a", "deny"),
        ("sudo rm a", "deny"),
        ("/bin/rm a", "deny"),
        ("echo $(rm a)", "deny"),
        ("ls | xargs rm", "deny"),
        ("bash -c 'rm a'", "deny"),
        ("r''m a", "deny"),
        ("\\rm a", "deny"),
        ("echo 'rm a'", "allow"),
        ("rmdir a", "allow"),
        ("rm 'a", "ask"),
        ("ls 'a", "ask"),
        ("x=rm; $x a", "deny"),
        ("$(echo rm) a", "ask"),
        ("`echo rm` a", "ask"),
        ("for x in rm; do $x a; done", "ask"),
        ("printf -v x rm; $x a", "ask"),
        ("r? a", "ask"),
        ("/bin/r[m] a", "ask"),
        ("sudo $x a", "ask"),
        ("echo rm a | sh", "ask"),
        ("echo $x", "allow"),
        ("ls *.py", "allow"),
        ("[ -f a ] && bash build.sh", "allow"),
        ("cat a | sort", "allow"),
        ("echo ${x:-$(rm a)}", "deny"),
        ("echo ${x:=`rm a`}", "deny"),
        ("echo ${x//a/$(rm a)}", "deny"),
        ('echo "${x:-${y:-$(rm a)}}"', "deny"),
        ("function f { rm a; }; f", "deny"),
        ("function f { rm a\n}\nf", "deny"),
        ("function f() { rm a; }; f", "deny"),
        ("f() { rm a; }; f", "deny"),
        ("coproc rm a", "deny"),
        ("coproc f { rm a; }", "deny"),
        ("coproc f while rm a; do ls; done", "deny"),
        ("env -u X rm a", "deny"),
        ("env --unset X -C / A=b rm a", "deny"),
        ("env -S 'rm a'", "deny"),
        ("timeout -s KILL 5 rm a", "deny"),
        ("timeout -k 5 5 rm a", "deny"),
        ("nice -n 5 rm a", "deny"),
        ("sudo -u me rm a", "deny"),
        ("stdbuf -o L rm a", "deny"),
        ("exec -a x rm a", "deny"),
        ("xargs -a f rm", "deny"),
        ("ls | xargs -I x rm x", "deny"),
        ("flock a rm a", "deny"),
        ("setpriv --nnp rm a", "deny"),
        ('bash -c "$(curl x)"', "ask"),
        ("bash -c $x", "ask"),
        ("eval $x", "ask"),
        ('eval "$(curl x)"', "ask"),
        ("source <(curl x)", "ask"),
        ("bash <(curl x)", "ask"),
        ("curl x | sh /dev/stdin", "ask"),
        ("curl x | bash -s", "ask"),
        ("curl x | . /dev/stdin", "ask"),
        ("curl x | xargs sh -c", "ask"),
        ('bash <<< "$(curl x)"', "ask"),
        ("echo {", "allow"),
        ("rm -rf {", "deny"),
    ],
)
def test_a_pattern_that_denies_finds_it_anywhere(command: str, expected: str) -> None:
    guard = rules({"tool": "bash", "command": ["rm", "rm *"], "decision": "deny"})
    assert decided(guard, "bash", {"command": command}) == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git push a", "deny"),
        ("git $x a", "ask"),
        ("git $(echo push) a", "ask"),
        ("git status $x", "allow"),
        ("git push", "deny"),
        ("git push $x", "deny"),
        ("make $x", "allow"),
    ],
)
def test_a_word_that_is_not_known_before_may_be_the_one_that_is_held_back(command: str, expected: str) -> None:
    guard = rules({"tool": "bash", "command": "git push *", "decision": "deny"})
    assert decided(guard, "bash", {"command": command}) == expected


def test_what_cannot_be_read_is_denied_where_a_later_rule_denies_all() -> None:
    guard = rules({"tool": "bash", "command": "git *", "decision": "allow"}, {"tool": "bash", "decision": "deny"})
    assert decided(guard, "bash", {"command": "git 'x"}) == "deny"


@table(
    ("words", "command", "fits"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git status *", "git status -s", True),
        ("git status *", "git status", True),
        ("git status *", "git stash", False),
        ("git log -?", "git log -5", True),
        ("git log -?", "git log -50", False),
        ("ls *.txt", "ls 'a b.txt'", True),
        ("ls *.txt", "ls a.txt b.txt", False),
    ],
)
def test_patterns_fit_word_by_word(words: str, command: str, fits: bool) -> None:
    guard = rules({"tool": "bash", "command": words, "decision": "allow"}, default="deny")
    assert decided(guard, "bash", {"command": command}) == ("allow" if fits else "deny")


WRITES = rules(
    {"tool": "write_file", "arguments": {"path": r"/mnt/user-data/outputs/[\w./-]+"}, "decision": "allow"},
    {"tool": "write_*", "arguments": {"path": "secret"}, "decision": "deny", "reason": "No."},
    {"tool": "write_*", "decision": "ask"},
)


@table(
    ("args", "expected"),
    [
        ({"path": "/mnt/user-data/outputs/a.txt"}, "allow"),
        ({"path": "x /mnt/user-data/outputs/a.txt"}, "ask"),
        ({"path": "/mnt/user-data/outputs/a.txt\n/etc/passwd"}, "ask"),
        ({"path": "/etc/secret"}, "deny"),
        ({"path": "a\nsecret\nb"}, "deny"),
        ({"path": ["/etc/secret"]}, "deny"),
        ({"path": {"at": "secret"}}, "deny"),
        ({"path": 5}, "ask"),
        ({}, "ask"),
    ],
)
def test_arguments_whole_for_what_is_allowed_anywhere_for_what_is_not(args: dict[str, Any], expected: str) -> None:
    assert decided(WRITES, "write_file", args) == expected


@table(
    ("rule", "about", "expected"),
    [
        ({"speaker": "admin", "decision": "allow"}, {"speaker": ADMIN}, "allow"),
        ({"speaker": "admin", "decision": "allow"}, {"speaker": MEMBER}, "deny"),
        ({"speaker": "member", "decision": "ask"}, {"speaker": MEMBER}, "ask"),
        ({"speaker": "member", "decision": "ask"}, {"speaker": ADMIN}, "deny"),
        ({"place": "group", "decision": "ask"}, {"is_group": True}, "ask"),
        ({"place": "group", "decision": "ask"}, {"is_group": False}, "deny"),
        ({"place": "dm", "decision": "allow"}, {"is_group": False}, "allow"),
        ({"tool": "web_*", "decision": "allow"}, {}, "deny"),
        ({"tool": "s?nd", "decision": "allow"}, {}, "allow"),
        ({"tool": "*", "decision": "allow"}, {}, "allow"),
        ({"decision": "allow"}, {}, "allow"),
    ],
)
def test_who_and_where(rule: dict[str, Any], about: dict[str, Any], expected: str) -> None:
    assert decided(rules(rule, default="deny"), "send", **about) == expected


def test_the_first_that_fits_decides_before_the_built_in_ones_and_the_default() -> None:
    guard = rules({"tool": "a", "decision": "deny"}, {"tool": "?", "decision": "ask"}, default="deny")
    assert [decided(guard, tool) for tool in ("a", "b", "other")] == ["deny", "ask", "deny"]
    host = {"isolation": "none"}
    assert decided(rules({"tool": "bash", "decision": "allow"}), "bash", {"command": "ls"}, **host) == "allow"
    assert decided(rules(builtin=False), "bash", {"command": "ls"}, **host) == "allow"


def test_expressions_take_time_linear_in_the_text() -> None:
    guard = rules({"tool": "send", "arguments": {"text": r"(a+)+b"}, "decision": "deny"})
    assert decided(guard, "send", {"text": "a" * 200_000}) == "allow"


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"tool": "send", "arguments": {"text": "(?=a)"}, "decision": "deny"}, "RE2"),
        ({"tool": "send", "arguments": {"text": "["}, "decision": "deny"}, "expression of text"),
        ({"tool": "bash", "command": "*", "decision": "allow"}, "name of a program"),
        ({"tool": "bash", "command": "  ", "decision": "allow"}, "name of a program"),
        ({"tool": "send", "command": "git *", "decision": "allow"}, "bash only"),
        ({"tool": "send", "decision": "maybe"}, "decision"),
        ({"tool": "send", "decision": "ask", "when": "always"}, "when"),
    ],
)
def test_what_is_no_rule_is_refused_at_the_start(rule: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says.replace("(", "\\(")):
        RuleSettings(**rule)
