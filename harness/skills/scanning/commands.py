"""Rules about what a skill's scripts and commands do: destroy, and run what they fetch."""

from __future__ import annotations

from harness.skills.scanning.rules import BLOCK, WARN, Rule
from harness.skills.scanning.texts import Place

RUN, SHELL, DATA = Place.RUN, Place.SHELL, Place.DATA

_SUDO = r"(?:\bsudo\s+(?:-\w+\s+)*)?"
_ROOT = (
    r"[\"']?(?:/(?:\*|\.\*)?|~/?\*?|\$\{?HOME\}?/?\*?|/(?:bin|boot|dev|etc|home|lib|lib64|mnt|opt|proc|root|sbin|srv"
    r"|sys|usr|var)/?\*?"
    r"|/mnt/(?:user-data|skills)/?\*?)[\"']?"
)
_END = r"(?:[\s;&|)`\"',\]]|$)"
_FETCH = r"(?:curl|wget|fetch|aria2c|http|https|lwp-download|axel)"
_FETCHED = rf"\b{_FETCH}\s[^\n|;]*(?:https?:|\$|\s-\w|\w\.\w)[^\n|;]*"
"""With an address: a table may have the names of programs beside each other."""
RUNNER = (
    r"(?:\S*/)?(?:env\s+|sudo\s+(?:-\S+\s+)*|exec\s+|command\s+|busybox\s+|nohup\s+"
    r"|xargs\s+(?:-\S+\s+)*)*(?:\S*/)?(?:(?:ba|da|z|k|fi|a|tc)?sh|python[\d.]*|perl"
    r"|ruby|node|php|lua|pwsh|powershell|osascript|deno|bun)\b"
)
"""What runs what it is given."""

DESTRUCTIVE: tuple[Rule, ...] = (
    Rule(
        name="destroys",
        level=BLOCK,
        pattern=rf"\brm\s+(?:-\S+\s+)*-(?:\w*[rR]\w*|-recursive)\s+(?:-\S+\s+)*(?:\S+\s+)*?{_ROOT}{_END}"
        rf"|\brm\s[^\n]*--no-preserve-root",
    ),
    Rule(
        name="destroys",
        level=BLOCK,
        pattern=rf"[\"']rm[\"']\s*,\s*[\"']-\w*[rR]\w*[\"']\s*,\s*{_ROOT}|rmtree\(\s*(?:Path\()?\s*{_ROOT}\s*[),]"
        rf"|rmtree\([^\n]*(?:Path\.home\(\)|"
        r"expanduser\(\s*[\"']~/?[\"']\s*\))\s*[),]|\brmSync\(\s*[\"'](?:/|~)[\"']",
        places=RUN | DATA,
    ),
    Rule(
        name="destroys",
        level=BLOCK,
        pattern=r"\bmkfs(?:\.\w+)?\s+(?:-\S+\s+)*/|\bmkswap\s+/dev|\bwipefs\s|\bblkdiscard\s|\bshred\s+[^\n]*/dev/"
        r"|\bdd\s[^\n]*\bof=[\"']?/dev/(?:[shv]d|nvme|"
        r"mmcblk|disk|mapper|md|dm-|mem)|>\s*/dev/(?:[shv]d[a-z]|nvme|mmcblk|disk|mem)",
    ),
    Rule(
        name="destroys",
        level=BLOCK,
        pattern=rf"\bch(?:mod|own)\s+(?:-\S+\s+)*(?:0?777|a\+rwx|\+?rwx|\w+:?\w*)\s+{_ROOT}{_END}"
        rf"|\bfind\s+{_ROOT}\s+[^\n]*(?:-delete|-exec\s+rm)\b",
    ),
    Rule(
        name="destroys",
        level=BLOCK,
        pattern=r"[\w:.]{1,40}\s*\(\)\s*\{\s*[\w:.]{1,40}\s*[|&]\s*[\w:.]{1,40}\s*&?\s*\}\s*;\s*[\w:.]"
        r"|\bos\.fork\(\)[^\n]*while\s+True|while\s+True:\s*os\.fork\(\)|"
        r"\bkill\s+(?:-9|-KILL|-s\s*KILL)\s+-1\b|%0\|%0",
    ),
    Rule(
        name="destroys",
        level=BLOCK,
        pattern=r"(?i)\bformat\s+[c-z]:"
        r"|\bdel\s+/[sfq]\s[^\n]*[c-z]:\\|\brd\s+/s\s+/q\s+[c-z]:\\|Remove-Item\s[^\n]*-Recurse[^\n]*\s[\"']?[c-z]:\\(?:[\"'\s]|$)"
        r"|vssadmin\s+delete\s+shadows|\bcipher\s+/w:",
    ),
    Rule(
        name="covers-tracks",
        level=WARN,
        pattern=r"\bhistory\s+-c\b|\bunset\s+HISTFILE\b|HISTFILE=/dev/null|\bcrontab\s+-r\b|>\s*~?/?\S*\.(?:bash"
        r"|zsh)_history\b|rm\s[^\n]*/var/log\b",
    ),
    Rule(
        name="stops-machine",
        level=WARN,
        pattern=r"(?m)^\s*(?:sudo\s+)?(?:shutdown|reboot|halt|poweroff)\b",
        places=SHELL,
    ),
)

REMOTE: tuple[Rule, ...] = (
    Rule(
        name="download-and-run",
        level=BLOCK,
        pattern=rf"{_FETCHED}(?:\|[^\n|;]*)*\|&?\s*{RUNNER}",
    ),
    Rule(
        name="download-and-run",
        level=BLOCK,
        pattern=rf"(?:{RUNNER}|\beval|\bsource|(?:^|[\s;&])\.)\s+[^\n|;]{{0,20}}(?:<\(|\$\(|`"
        rf"|\"\$\()\s*{_SUDO}{_FETCH}\b",
    ),
    Rule(
        name="download-and-run",
        level=BLOCK,
        pattern=rf"\b{_FETCH}\b[^\n]*(?:&&|;|\|\|)\s*(?:sudo\s+)?(?:chmod\s+(?:-\S+\s+)*(?:\+x|[0-7]*[1357][0-7]*"
        rf"|[ugoa]*\+\w*x\w*)\s|(?:\S*/)?(?:ba|da|z|k)?sh\s|\./|python[\d.]*\s)",
    ),
    Rule(
        name="download-and-run",
        level=BLOCK,
        pattern=r"(?i)(?:Invoke-WebRequest|Invoke-RestMethod|\biwr\b|\birm\b"
        r"|DownloadString\([^\n)]*\))[^\n]*\|\s*(?:iex|Invoke-Expression)\b|"
        r"(?:iex|Invoke-Expression)\b[^\n]*(?:Invoke-WebRequest|DownloadString|\biwr\b|\birm\b)|mshta\s+https?:"
        r"|regsvr32\s[^\n]*https?:|"
        r"certutil\s[^\n]*-urlcache|bitsadmin\s[^\n]*/transfer",
    ),
    Rule(
        name="download-and-run",
        level=BLOCK,
        pattern=r"(?:exec|eval|compile|loads?|runpy\.\w+)\s*\([^\n]*(?:requests\.get|urlopen|httpx\.get"
        r"|urllib\.request|fetch\()|importlib[^\n]*https?://|"
        r"\brequire\(\s*[\"']https?:|\bimport\(\s*[\"']https?:",
        places=RUN | DATA,
    ),
    Rule(
        name="reverse-shell",
        level=BLOCK,
        pattern=r"/dev/(?:tcp|udp)/|\b(?:nc|ncat|netcat)\s+[^\n|;]*-\w*[ec]\s*\S*sh\b|\b(?:ba|z"
        r"|k)?sh\s+-i\s*[<>0-9&]|socat\s[^\n]*(?:exec|system):|"
        r"mkfifo\s[^\n]*\b(?:nc|ncat|netcat|telnet)\b|os\.dup2\([^\n]*fileno\(\)|pty\.spawn\([^\n]*sh[\"']"
        r"|\bmsfvenom\b|meterpreter",
    ),
    Rule(
        name="miner",
        level=BLOCK,
        pattern=r"(?i)stratum\d?\+(?:tcp|ssl|tls)://|\b(?:xmrig|cpuminer|minerd|ethminer|lolminer|nbminer)\b",
    ),
    Rule(
        name="cloud-credentials",
        level=BLOCK,
        pattern=r"169\.254\.169\.254|100\.100\.100\.200|metadata\.google\.internal|fd00:ec2::254|/(?:docker"
        r"|containerd|podman)\.sock\b",
    ),
    Rule(
        name="package-from-address",
        level=WARN,
        pattern=r"\bpip[\d.]*\s+install\s[^\n]*(?:git\+|https?://|--index-url|--extra-index-url|-i\s+http)"
        r"|\bnpx?\s+(?:install\s+|-y\s+)?(?:git\+|https?:|github:)|"
        r"\buvx?\s[^\n]*git\+|\bcargo\s+install\s+--git|\bgo\s+install\s+\S+@",
    ),
    Rule(
        name="package",
        level=WARN,
        pattern=r"\b(?:pip[\d.]*|pipx|npm|pnpm|yarn|gem|cargo|apt|apt-get|dnf|yum|apk|brew|conda|choco"
        r"|winget)\s+(?:-\S+\s+)*(?:install|add|i)\s",
        places=RUN | DATA,
        prose=None,
        keep=None,
    ),
)
