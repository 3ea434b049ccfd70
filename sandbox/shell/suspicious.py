"""Tests of one pipeline for suspicious commands, for the table in sandbox/shell/audit.py."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from sandbox.base import OUTPUTS, UPLOADS, WORKSPACE
from sandbox.shell.reader import names
from sandbox.shell.script import SHELLS, all_pipelines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sandbox.shell.reader import Command, Script, Word

    Pipeline = list[Command]
    Found = Callable[[Pipeline], bool]

_OWN = (WORKSPACE, UPLOADS, OUTPUTS)
_SYSTEM = "bin|boot|dev|etc|home|lib|lib32|lib64|opt|proc|root|run|sbin|srv|sys|usr|var"
_SYSTEM_PATH = re.compile(rf"/(?:{_SYSTEM})(?:/.*)?", re.DOTALL)
_FREE = re.compile(r"/dev/(?:null|zero|full|random|urandom|tty|stdin|stdout|stderr|fd/\d+|shm(?:/.*)?)|/var/tmp/.*")
_DISKS = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|loop|dm-|md|mapper/|disk/|mem|kmem|port)")
_ENDLESS = re.compile(r"/dev/(?:zero|urandom|random|full)")
SECRETS = re.compile(
    r"/proc/[^/]+/(?:task/[^/]+/)?(?:environ|mem|root|cwd|fd/.*|auxv)(?:/.*)?|/proc/kcore"
    r"|/etc/(?:g?shadow-?|sudoers(?:\.d/.*)?)|(?:~|/root|/home/[^/]+)/\.(?:ssh|aws|gnupg|docker|kube)/.+"
)
SOCKETS = re.compile(r".*/(?:docker|containerd|crio|podman)\.sock\b")
METADATA = re.compile(r"169\.254\.169\.254|100\.100\.100\.200|metadata\.google\.internal|fd00:ec2::254", re.IGNORECASE)
POOL = re.compile(r"stratum\d?\+(?:tcp|ssl|tls)://", re.IGNORECASE)
MINERS = names(
    "xmrig xmr-stak minerd cpuminer cpuminer-multi ethminer cgminer bfgminer sgminer nbminer lolminer phoenixminer"
    " t-rex gminer teamredminer nanominer srbminer srbminer-multi wildrig claymore ccminer"
)
DOWNLOADERS = names("curl wget aria2c fetch lwp-download http https")
DECODERS = names("base64 base32 xxd openssl uudecode gunzip zcat rev tr")
_SOURCING = frozenset({"source", ".", "eval"})
_INPUT = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0", "-"})
_INTERPRETERS = re.compile(r"(?:python|perl|ruby|node|php|lua)[\d.]*")
_COPIERS = names("cp mv install ln rsync")
CHOOSING = names("-name -iname -path -ipath -regex -mtime -mmin -newer -size -empty -user")
NAMESPACES = names("nsenter unshare chroot pivot_root mount umount losetup swapon swapoff")
KERNEL = names("insmod rmmod modprobe kexec sysctl reboot shutdown halt poweroff telinit")
_FORMATTERS = re.compile(r"mkfs(?:\.\w+)?|mke2fs|mkswap|wipefs|fdisk|sfdisk|cfdisk|parted|blkdiscard|hdparm")
_PACKAGES = names("pip pip3 pipx npm pnpm yarn gem cargo apt apt-get dnf yum apk brew conda")


def _words(command: Command) -> Iterator[str]:
    for word in (*command.words, *command.reads, *command.writes):
        yield word.text


def _paths(command: Command) -> Iterator[str]:
    """Everything that may be a path, including those in `of=/x` and `--file=/x`."""
    for text in _words(command):
        yield _normal(text)
        if "=" in text:
            yield _normal(text.partition("=")[2])


def _normal(path: str) -> str:
    path = path.removeprefix("@")  # curl's notation
    return "/" + posixpath.normpath(path).lstrip("/") if path.startswith("/") else path


def some(test: Callable[[Command], bool]) -> Found:
    return lambda pipeline: any(test(command) for command in pipeline)


def named(sought: frozenset[str]) -> Found:
    return some(lambda command: command.name in sought)


def mentions(pattern: re.Pattern[str]) -> Found:
    return some(lambda command: any(pattern.match(path) for path in _paths(command)))


def contains(pattern: re.Pattern[str]) -> Found:
    return some(lambda command: any(pattern.search(text) for text in _words(command)))


def _doomed(command: Command) -> Iterator[str]:
    """Paths that are deleted with all their contents."""
    if command.name == "rm" and (command.has("r", "--recursive") or command.has("R")):
        yield from map(_normal, command.plain)
    elif command.name == "find" and (
        "-delete" in command.arguments or any(text in ("rm", "shred", "unlink") for text in command.arguments)
    ):
        yield from map(_normal, command.plain[:1])
    elif command.name == "shred":
        yield from map(_normal, command.plain)


def deletes_a_root(command: Command) -> bool:
    if command.name == "rm" and "--no-preserve-root" in command.arguments:
        return True
    return any(_is_root(path) for path in _doomed(command))


def _is_root(path: str) -> bool:
    folder = path.removesuffix("/*").rstrip("/") or "/"
    if folder in ("~", "/mnt", "/mnt/user-data", "/mnt/skills"):
        return True
    return (
        folder == "/"
        or bool(_SYSTEM_PATH.fullmatch(folder))
        or re.fullmatch(r"/(?!tmp$|mnt$)[^/]*", folder) is not None
    )


def empties_a_folder(command: Command) -> bool:
    if command.name == "find" and not CHOOSING.isdisjoint(command.arguments):
        return False
    own = {name for folder in _OWN for name in (folder, f"{folder}/*")}
    return any(path in own or path in ("*", ".", "./*", "..", "./") for path in _doomed(command))


def _writes(command: Command) -> Iterator[str]:
    """The files that a command writes, as far as its words show."""
    yield from (_normal(word.text) for word in command.writes)
    if command.name in ("tee", "truncate", "touch", "mkdir", "chmod", "chown") or (
        command.name in ("sed", "perl") and command.has("i", "--in-place")
    ):
        yield from map(_normal, command.plain)
    elif command.name in _COPIERS:
        yield from map(_normal, command.plain[-1:])
    elif command.name == "dd":
        yield from (_normal(text[3:]) for text in command.arguments if text.startswith("of="))


def writes_system(command: Command) -> bool:
    return any(_SYSTEM_PATH.fullmatch(path) and not _FREE.fullmatch(path) for path in _writes(command))


def formats(command: Command) -> bool:
    if _FORMATTERS.fullmatch(command.name):
        return True
    return any(_DISKS.match(path) for path in (*_writes(command), *_doomed(command)))


def _runs_input(command: Command) -> bool:
    """Whether it reads its program from its piped input."""
    if command.name in SHELLS:
        return all(text in _INPUT for text in command.plain) or command.has("s")
    if _INTERPRETERS.fullmatch(command.name):
        return all(text == "-" for text in command.arguments)
    return command.name in _SOURCING and any(text in _INPUT for text in command.arguments)


def piped_into_shell(sources: frozenset[str]) -> Found:
    """Whether a program's output is run: piped into one that runs it, or substituted where a program is expected."""

    def found(pipeline: Pipeline) -> bool:
        begun = False
        for command in pipeline:
            if begun and _runs_input(command):
                return True
            begun = begun or command.name in sources
            if _takes_program(command) and any(_uses(word.inner, sources) for word in _program_words(command)):
                return True
        return False

    return found


def _takes_program(command: Command) -> bool:
    return command.name in SHELLS | _SOURCING or bool(_INTERPRETERS.fullmatch(command.name))


def _program_words(command: Command) -> Iterator[Word]:
    yield from command.words[1:]
    yield from command.reads


def _uses(scripts: list[Script], sought: frozenset[str]) -> bool:
    return any(inner.name in sought for script in scripts for pipeline in all_pipelines(script) for inner in pipeline)


def fills_disk(pipeline: Pipeline) -> bool:
    endless = any(command.name == "yes" or _reads_endlessly(command) for command in pipeline)
    written = any(not path.startswith("/dev/") for command in pipeline for path in _writes(command))
    if endless and written and not any(_is_bounded(command) for command in pipeline):
        return True
    return any(command.name in ("fallocate", "truncate") and _is_huge(command.arguments) for command in pipeline)


def _reads_endlessly(command: Command) -> bool:
    reads = command.name in ("cat", "dd", "head", "tr", "openssl", "cp", "pv", "tee", "gzip", "shuf")
    return reads and any(_ENDLESS.match(path) for path in _paths(command))


def _is_bounded(command: Command) -> bool:
    if command.name == "head":
        return not _is_huge(command.arguments)
    count = next((text[6:] for text in command.arguments if text.startswith("count=")), "")
    return command.name == "dd" and bool(count) and not _is_huge(command.arguments)


_SIZE = re.compile(r"(?:\w+=|--\w+=|-[a-z])?\+?(\d+)([kKmMgGtTpP]?)")
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_HUGE = 20 << 30


def _is_huge(arguments: list[str]) -> bool:
    """Whether the sizes among the words add up to more than a sandbox's disk ever has."""
    sizes = [match for text in arguments if (match := _SIZE.fullmatch(text)) is not None]
    values = {match.group().partition("=")[0]: int(match[1]) << _UNITS[match[2].lower()] for match in sizes}
    product = values.get("bs", 512) * values["count"] if "count" in values else 0
    return max((product, *values.values())) > _HUGE if values else False


def opens_reverse_shell(command: Command) -> bool:
    if any(re.match(r"/dev/(?:tcp|udp)/", text) for text in _words(command)):
        return True
    if command.name in ("nc", "ncat", "netcat", "nc.traditional"):
        return command.has("e", "--exec", "--sh-exec") or command.has("c")
    return command.name == "socat" and any(
        re.match(r"(?:exec|system):", text, re.IGNORECASE) for text in command.arguments
    )


def kills_everything(command: Command) -> bool:
    if command.name == "killall5":
        return True
    return command.name == "kill" and "-1" in command.arguments[1:]


def uploads(command: Command) -> bool:
    if command.name == "curl":
        return command.has("T", "--upload-file") or any(
            re.match(r"@|.+=@", text) and text != "@-" for text in command.arguments
        )
    return command.name == "wget" and any(text.startswith(("--post-file", "--body-file")) for text in command.arguments)


def sets_wide_rights(command: Command) -> bool:
    return command.name == "chmod" and any(
        re.fullmatch(r"0?[2-7]777|0?[4-7]\d{3}|[ugo]*\+s.*", text) or (text in ("777", "a+rwx") and command.has("R"))
        for text in command.arguments
    )


def installs(command: Command) -> bool:
    return command.name in _PACKAGES and any(text in ("install", "add", "i", "ci") for text in command.arguments[:2])
