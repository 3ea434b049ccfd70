"""Rules about programs that hide what they do, or stay when the skill is gone."""

from __future__ import annotations

from harness.skills.scanning.commands import RUNNER
from harness.skills.scanning.rules import BLOCK, WARN, Rule
from harness.skills.scanning.texts import Place

RUN, SHELL, DATA = Place.RUN, Place.SHELL, Place.DATA

_DECODE = (
    r"(?:base64\s+(?:-\w*[dD]\w*|--decode)|base32\s+(?:-d|--decode)|xxd\s+-\w*r|openssl\s+(?:enc|base64"
    r"|aes\S*)\s[^\n|]*-d|gunzip|zcat"
    r"|gzip\s+-\w*d|bzcat|xzcat|\brev\b|\btr\s+\S+\s+\S+|uudecode|printf\s+[\"']?(?:\\x|\\0))"
)

DISGUISES: tuple[Rule, ...] = (
    Rule(
        name="decode-and-run",
        level=BLOCK,
        pattern=rf"{_DECODE}[^\n]*\|\s*{RUNNER}|(?:\beval|\bsource|{RUNNER}\s+-\w*[ce])\s+[\"']?(?:\$\(|`"
        rf"|<\()[^\n]*{_DECODE}",
    ),
    Rule(
        name="decode-and-run",
        level=BLOCK,
        pattern=r"(?:\b(?:exec|eval|compile|__import__|system|popen|run|call|Popen|check_output|spawn|execSync)\s*\("
        r"|\b(?:python[\d.]*|perl|ruby|node)\s+-\w*[ce]\s)[^\n]*"
        r"(?:b64decode|b32decode|b85decode|a85decode|base64\.\w*decode|decodebytes|unhexlify|bytes\.fromhex"
        r"|bytearray\.fromhex|zlib\.decompress|"
        r"bz2\.decompress|lzma\.decompress|gzip\.decompress|marshal\.loads|pickle\.loads|codecs\.decode|\batob\("
        r"|Buffer\.from\([^\n]*(?:base64|hex)|fromCharCode|"
        r"decode_base64|pack\(|rot13|\[::-1\])",
        places=RUN | DATA,
    ),
    Rule(
        name="decode-and-run",
        level=BLOCK,
        pattern=r"(?:marshal\.loads|types\.CodeType|types\.FunctionType)\s*\(",
        also=r"(?:^|[^.\w])(?:exec|eval)\s*\(|FunctionType",
        places=RUN | DATA,
    ),
    Rule(
        name="decode-and-run",
        level=BLOCK,
        pattern=r"(?:^|[^.\w])(?:exec|eval)\s*\(",
        also=r"b64decode|unhexlify|bytes\.fromhex|zlib\.decompress|marshal\.loads|\batob\(|lzma\.decompress",
        places=RUN | DATA,
    ),
    Rule(
        name="decode-and-run",
        level=BLOCK,
        pattern=r"(?i)\b(?:powershell|pwsh)(?:\.exe)?\s[^\n]*-e(?:nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{16,}"
        r"|FromBase64String\([^\n]*(?:iex|Invoke-Expression)|"
        r"new\s+Function\s*\([^\n]*atob",
    ),
    Rule(
        name="disguised-call",
        level=BLOCK,
        pattern=r"__import__\(\s*[\"'](?:os|subprocess|socket|pty|ctypes)[\"']\s*\)\s*\.|getattr\(\s*(?:os"
        r"|subprocess|builtins|__builtins__|__import__\([^)\n]*\))\s*,\s*"
        r"(?:[^\"'\n)]|[\"'][^\"'\n]*[\"']\s*\+|[\"'](?:system|popen|exec\w*|eval|spawn\w*)[\"'])"
        r"|chr\(\d+\)\s*\+\s*chr\(\d+\)\s*\+\s*chr\(\d+\)|"
        r"__builtins__\s*(?:\[|\.__dict__)|globals\(\)\[[^\]\n]*\]\(",
        places=RUN | DATA,
    ),
    Rule(
        name="disguised-call",
        level=WARN,
        pattern=r"(?:\\x[0-9a-fA-F]{2}){16,}|(?:\\[0-7]{3}){16,}|(?:\\u00[0-9a-fA-F]{2}){16,}"
        r"|(?:\$\{?IFS\}?[^\n]*){2,}|fromCharCode\((?:\s*\d+\s*,){8,}|"
        r"\b(?:\w*\$\{\w+:\d+:\d+\}){3,}|(?:\w''\w|\w\"\"\w)[^\n]*\s",
        places=RUN,
    ),
    Rule(
        name="dynamic-code",
        level=WARN,
        pattern=r"(?:^|[^.\w])(?:exec|eval)\s*\(|\bnew\s+Function\s*\(|\b(?:pickle|marshal|dill"
        r"|cloudpickle)\.loads?\(|\byaml\.(?:unsafe_load|load)\([^\n)]*(?:Unsafe|\)$)",
        places=Place.CODE,
    ),
    Rule(
        name="stays",
        level=BLOCK,
        pattern=r">>?\s*[\"']?(?:~|\$HOME|/root|/home/\S+)/\.ssh/authorized_keys|tee\s[^\n]*authorized_keys"
        r"|LD_PRELOAD\s*=|/etc/ld\.so\.preload|/etc/cron\.\w+/|"
        r"/etc/sudoers|/etc/rc\.local|/etc/systemd/system/\S+\.service",
        places=RUN | DATA,
    ),
    Rule(
        name="stays",
        level=WARN,
        pattern=r">>\s*[\"']?(?:~|\$\{?HOME\}?)/\.(?:bashrc|zshrc|profile|bash_profile)|\bcrontab\s+(?:-e|-\s"
        r"|[^\s-])|\|\s*crontab\b|\bsystemctl\s+(?:--user\s+)?enable|"
        r"launchctl\s+load|schtasks\s+/create|\.git/hooks/|\bnohup\b[^\n]*&\s*$",
        places=RUN | DATA,
    ),
    Rule(name="privilege", level=WARN, pattern=r"(?m)(?:^|[;&|]\s*)\s*(?:sudo|doas|su\s+-)\s", places=SHELL),
)
