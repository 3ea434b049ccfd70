"""Programs run by a shell script, including those that its programs run (`env`, `bash -c`, `xargs`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sandbox.shell.reader import ASSIGNMENT, DEEPEST, Command, Script, Unreadable, names, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.shell.reader import Word

SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "rbash"})
_RUNNERS = names(
    "sudo doas env nohup setsid nice ionice time timeout command builtin exec stdbuf chronic busybox xargs unbuffer"
    " catchsegv chrt taskset parallel setpriv runuser pkexec flock watch strace ltrace numactl systemd-run"
    " fakeroot xvfb-run prlimit chroot"
)
"""Programs that run the program named in their arguments."""
_VALUED = {
    "env": names("-u --unset -C --chdir"),
    "sudo": names("-u -g -h -p -C -D -R -r -t -T -U --user --group --host --prompt --chdir --chroot"),
    "doas": names("-u -C"),
    "timeout": names("-s --signal -k --kill-after"),
    "nice": names("-n --adjustment"),
    "ionice": names("-c -n --class --classdata"),
    "time": names("-f -o --format --output"),
    "stdbuf": names("-i -o -e --input --output --error"),
    "exec": names("-a"),
    "xargs": names(
        "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --max-lines --max-chars --replace"
    ),
    "parallel": names("-j -a -I -n -N --jobs --arg-file"),
    "runuser": names("-u -g -G --user --group"),
    "flock": names("-w -E --wait --timeout"),
    "watch": names("-n --interval"),
    "strace": names("-e -o -s -u -E -P"),
    "ltrace": names("-e -o -s -u"),
}
"""The options of each whose value is a separate word."""
_PLACES = names("flock chroot taskset")
"""Those whose first argument is something else: a file, a folder, a mask."""


def all_pipelines(script: Script, depth: int = 0) -> Iterator[list[Command]]:
    """All pipelines, including nested ones, with commands replaced by those that they run. Raises Unreadable."""
    if depth > DEEPEST:
        raise Unreadable("it is nested too deeply")
    for pipeline in script.pipelines:
        run = [_run_by(command) for command in pipeline]
        yield run
        for command in {id(each): each for each in (*pipeline, *run)}.values():
            for inner in _within(command):
                yield from all_pipelines(inner, depth + 1)


def _run_by(command: Command) -> Command:
    """The command that this one finally runs."""
    words = command.words
    if command.name not in _RUNNERS:
        return command
    while words and words[0].text.rpartition("/")[2] in _RUNNERS:
        runner, rest = words[0].text.rpartition("/")[2], words[1:]
        while rest and (rest[0].text.startswith("-") or ASSIGNMENT.fullmatch(rest[0].text) or _is_number(rest[0])):
            rest = rest[2 if rest[0].text in _VALUED.get(runner, ()) else 1 :]
        rest = rest[1:] if runner in _PLACES else rest
        if not rest:
            break
        words = rest
    return Command(words, command.reads, command.writes, command.given)


def _is_number(word: Word) -> bool:
    """Whether it is a number, such as the duration for `timeout`."""
    return re.fullmatch(r"[\d.]+[smhd]?", word.text) is not None


def _within(command: Command) -> Iterator[Script]:
    """The further scripts that a command runs."""
    for word in (*command.words, *command.reads, *command.writes):
        yield from word.inner
    if command.name in SHELLS | {"su"}:
        texts = iter(command.arguments)
        if any(re.fullmatch(r"-\w*c|--command", text) for text in texts):
            yield parsed(next(texts, ""))
        if command.given:
            yield parsed(command.given)
    elif command.name in ("eval", "trap"):
        yield parsed(" ".join(command.arguments))
    elif command.name == "env":
        texts = iter(command.arguments)
        if any(text in ("-S", "--split-string") for text in texts):
            yield parsed(next(texts, ""))
    elif command.name == "find":
        for place, text in enumerate(command.arguments):
            if text in ("-exec", "-execdir", "-ok", "-okdir"):
                yield Script([[Command(command.words[place + 2 :])]])
