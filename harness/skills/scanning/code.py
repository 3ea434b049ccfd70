"""Rules about a skill's code: it destroys data, runs what it downloads, sends data away, hides or persists."""

from __future__ import annotations

from harness.skills.scanning.rules import BLOCK, WARN, Rule
from harness.skills.scanning.texts import Place
from harness.skills.scanning.words import PRECIOUS

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
"""Fetches with an address: a table may merely list the names of programs."""
RUNNER = (
    r"(?:\S*/)?(?:env\s+|sudo\s+(?:-\S+\s+)*|exec\s+|command\s+|busybox\s+|nohup\s+"
    r"|xargs\s+(?:-\S+\s+)*)*(?:\S*/)?(?:(?:ba|da|z|k|fi|a|tc)?sh|python[\d.]*|perl"
    r"|ruby|node|php|lua|pwsh|powershell|osascript|deno|bun)\b"
)
"""Programs that execute their input."""

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
    ),
)


_NET = (
    r"(?:requests\.(?:get|post|put|patch|request|Session)|urllib\.request|urlopen\(|http\.client|httpx\.|aiohttp\.|"
    r"socket\.(?:socket|create_connection)|smtplib|ftplib|paramiko|telnetlib|websockets?\.|fetch\(|axios\b"
    r"|XMLHttpRequest|"
    r"\b(?:import|from)[ \t]+(?:urllib3|asyncio|dns|socketserver|xmlrpc|imaplib|poplib|nntplib|pycurl|tornado|twisted"
    r"|grpc|zmq|boto3|botocore|asyncssh|trio|anyio|curl_cffi|httplib2|requests_html|treq|niquests|scapy)\b|"
    r"net\.connect|http\.request|https\.request|\$http|Net::HTTP|LWP::|Invoke-WebRequest|Invoke-RestMethod|WebClient)"
)
_OTHER_NET = (
    r"\b(?:require|import|from)\s*\(?\s*[\"'](?:node:)?(?:https?2?|net|dgram|tls|dns|undici|node-fetch|got|ws|request"
    r"|superagent|socket(?:\.\w+)?|open-uri|faraday|httparty)[\"']|[\"']net/(?:http|smtp|ftp|imap|pop|rpc|ssh|telnet)\b"
    r"|\b(?:p?fsockopen|stream_socket_client|curl_init|curl_exec|download\.file)\s*\("
    r"|file_get_contents\(\s*[\"'](?:https?|ftp):|\bIO::Socket|\bTCPSocket\b|\bjava\.net\.|\bstd::net\b|\breqwest::"
    r"|\bSystem\.Net\b|\bURLSession\b|<(?:sys/socket|netdb|curl/curl)\.h>|/inet\d?/(?:tcp|udp)/"
)
"""The same in other languages: JavaScript, Ruby, Lua, Go, PHP, R, Perl, Java, Rust, C#, Swift, C, awk."""
_SEND = (
    r"(?:requests\.(?:post|put|patch)|urlopen\(|httpx\.(?:post|put|AsyncClient|Client)|aiohttp\.ClientSession|smtplib|"
    r"socket\.(?:socket|create_connection|getaddrinfo|gethostbyname)|http\.client|fetch\(|axios|XMLHttpRequest"
    r"|sendBeacon|"
    r"\b(?:curl|wget|nc|ncat|netcat|socat)\b|requests\.get\([^\n]*(?:params|\+|\{|%))"
)
_ALL_ENV = (
    r"(?:dict\(\s*os\.environ|os\.environ\.(?:items|copy)\(\)|json\.dumps\([^\n)]*os\.environ|str\(\s*os\.environ|"
    r"[=(,]\s*os\.environ\s*[),\n]|JSON\.stringify\(\s*process\.env\s*\)|\bENV\.to_h\b|\bprintenv\b|\benv\s*[|>]"
    r"|\$\((?:env|printenv|set)\))"
)
_DROPS = (
    r"(?:webhook\.site|requestbin\.\w+|\.pipedream\.net|requestcatcher\.com|beeceptor\.com|hookbin\.com|interact\.sh|"
    r"\.oast\.\w+|\.oastify\.com|burpcollaborator\.net|dnslog\.(?:cn|\w+)|ceye\.io|canarytokens\.\w+"
    r"|ngrok(?:-free)?\.(?:io|app|dev)|"
    r"\.trycloudflare\.com|\.serveo\.net|\.loca\.lt|localhost\.run|\.lhr\.life|transfer\.sh|\bfile\.io/|0x0\.st"
    r"|termbin\.com|"
    r"pastebin\.com|paste\.ee|hastebin\.com|\bix\.io\b|dpaste\.\w+|rentry\.co|gofile\.io|anonfiles\.com|glot\.io"
    r"|sprunge\.us|"
    r"discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot)"
)


SENDING: tuple[Rule, ...] = (
    Rule(
        name="sends-secrets",
        level=BLOCK,
        pattern=rf"\b(?:env|printenv|set|export\s+-p)\s*\|[^\n]*\b(?:curl|wget|nc|ncat|netcat|socat|mail|sendmail"
        rf"|dig|nslookup)\b|\b(?:cat|tar|zip|gzip|base64|xxd)\b"
        rf"[^\n]*{PRECIOUS}[^\n]*\|[^\n]*\b(?:curl|wget|nc|ncat|netcat|socat|mail|sendmail)\b",
    ),
    Rule(
        name="sends-secrets",
        level=BLOCK,
        pattern=rf"\b(?:curl|wget|nc|ncat|scp|rsync|sftp|ftp)\b[^\n]*(?:{PRECIOUS}|\$\((?:env|printenv|cat|base64"
        rf"|whoami|hostname|id)\b|`(?:env|printenv|cat|base64)"
        r"|/mnt/user-data|/proc/\S*environ)",
    ),
    Rule(name="sends-secrets", level=BLOCK, pattern=_ALL_ENV, also=_SEND, places=RUN | DATA),
    Rule(
        name="sends-secrets",
        level=BLOCK,
        pattern=rf"(?:open|read_text|read_bytes|Path|expanduser|readFile(?:Sync)?|join|glob)\(?[^\n]*{PRECIOUS}",
        also=_SEND,
        places=RUN,
    ),
    Rule(
        name="touches-secrets",
        level=WARN,
        pattern=r"(?:~|/root|/home/[\w.-]+|\$\{?HOME\}?|expanduser|Path\.home\(\))[^\n]*(?:\.ssh|\.aws|\.gnupg"
        r"|\.netrc|\.kube|\.docker|\.git-credentials|"
        r"\.config/gcloud|\.bash_history|\.zsh_history)\b|/etc/(?:shadow|sudoers)\b|/proc/(?:self|1|\*"
        r"|\d+)/(?:environ|mem)\b",
    ),
    Rule(name="touches-secrets", level=WARN, pattern=_ALL_ENV, places=RUN | DATA),
    Rule(
        name="drop-address",
        level=BLOCK,
        prose=WARN,
        pattern=rf"(?i){_DROPS}",
    ),
    Rule(
        name="dns-exfiltration",
        level=BLOCK,
        pattern=r"\b(?:dig|nslookup|host|ping|getent\s+hosts)\s+[^\n]*(?:\$\(|`"
        r"|\$\{?[A-Za-z_]\w*\}?\.)[^\n]*\.[a-z]{2,}|(?:gethostbyname|getaddrinfo|resolve(?:4|6)?|lookup)"
        r"\(\s*(?:f[\"'][^\"'\n]*\{|[^\n]*\+\s*[\"']\.)",
        places=RUN | DATA,
    ),
    Rule(
        name="uploads",
        level=WARN,
        pattern=r"\bcurl\b[^\n]*\s(?:-T|--upload-file|-F|--form|--data-binary|--data|-d|--data-urlencode"
        r"|--json)[\s=]|\bcurl\b[^\n]*\s-X\s*(?:POST|PUT|PATCH)|\bwget\b[^\n]*"
        r"--post-(?:file|data)|\b(?:scp|rsync|sftp)\s[^\n]*\w@?[\w.-]+:|\baws\s+s3\s+(?:cp|sync|mv)\b"
        r"|requests\.(?:post|put|patch)\(",
        places=RUN | DATA,
    ),
    Rule(
        name="network",
        level=WARN,
        pattern=rf"{_NET}|{_OTHER_NET}|(?m:^|[\s;&|(`])(?:curl|wget|nc|ncat|netcat|socat|telnet|ssh|ftp)\s+[^\s=]",
        places=RUN,
    ),
)


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
        places=RUN,
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
