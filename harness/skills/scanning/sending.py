"""Rules about what a skill's scripts send away, and where to; and about keys that they have no business with."""

from __future__ import annotations

from harness.skills.scanning.rules import BLOCK, WARN, Rule
from harness.skills.scanning.texts import Place
from harness.skills.scanning.words import PRECIOUS

RUN, DATA = Place.RUN, Place.DATA

_NET = (
    r"(?:requests\.(?:get|post|put|patch|request|Session)|urllib\.request|urlopen\(|http\.client|httpx\.|aiohttp\.|"
    r"socket\.(?:socket|create_connection)|smtplib|ftplib|paramiko|telnetlib|websockets?\.|fetch\(|axios\b"
    r"|XMLHttpRequest|"
    r"\b(?:import|from)[ \t]+(?:urllib3|asyncio|dns|socketserver|xmlrpc|imaplib|poplib|nntplib|pycurl|tornado|twisted"
    r"|grpc|zmq|boto3|botocore|asyncssh|trio|anyio|curl_cffi|httplib2|requests_html|treq|niquests|scapy)\b|"
    r"net\.connect|http\.request|https\.request|\$http|Net::HTTP|LWP::|Invoke-WebRequest|Invoke-RestMethod|WebClient)"
)
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
        pattern=rf"{_NET}|(?m:^|[\s;&|(`])(?:curl|wget|nc|ncat|netcat|socat|telnet|ssh|ftp)\s+[^\s=]",
        places=RUN,
    ),
)
