"""Rules about a skill's words: orders against the agent's rules or its user, and secrets in the text."""

from __future__ import annotations

import re

from harness.skills.scanning.rules import BLOCK, WARN, Rule
from harness.skills.scanning.texts import Place
from harness.text.plain import entropy

_S = r"[\s\"'`*_.,:;-]+"
"""What may separate two words."""
_OLD = r"(?:previous|prior|above|earlier|preceding|former|initial|original|system|safety|security)"
_RULES = r"(?:instructions?|prompts?|rules?|guidelines?|directions?|directives?|policies|constraints?|guardrails?)"
_PEOPLE = (
    r"(?:the|any|your)?\s*(?:users?|persons?|people|humans?|admins?|administrators?|operators?|anyone|anybody|owner)"
)
_TAKE = (
    r"(?:read|cat|open|print|show|include|output|send|paste|copy|dump|upload|post|reveal|append|embed|extract|collect"
    r"|gather|return|attach|share|leak|forward|report|encode)"
)
_FILLER = (
    r"(?:\s+(?:the|your|its|all|any|every|each|contents?|full|complete|entire|of|from|file|files|local|user'?s|host'?s"
    r"|and)){0,6}"
)
PRECIOUS = (
    r"(?:\.env(?:\.(?:local|prod\w*|dev\w*))?(?:[^\w.]|$|\.(?:\s|$))|\.ssh\b|id_(?:rsa|ed25519|ecdsa|dsa)\b|\.aws\b"
    r"|\.netrc\b|\.git-credentials\b|\.pgpass\b|\.kube/config"
    r"|\.docker/config|\.npmrc\b|\.pypirc\b|\.gnupg\b|/etc/shadow|/etc/passwd|authorized_keys|known_hosts|keychain"
    r"|wallet\.dat|\.bash_history|\.zsh_history|(?:antler|/config)/config\.yaml|antler\.db|login data\b"
    r"|cookies\.sqlite)"
)

_FORGET = r"(?:ignor(?:e|es|ing)|disregard(?:s|ing)?|forget(?:s|ting)?|bypass(?:es|ing)?)"
_OVERRIDE = r"(?:overrid(?:e|es|ing)|overrul(?:e|es|ing))"
_ALL = r"(?:all|any|every|everything|of|the|your|my|our|its|those|these|each|other|existing)"
_OF_OTHERS = re.compile(r"(?i)\b(?:in|from|within|found|inside|contained|embedded|that|on|of)\b")
_OF_THIS_CHAT = re.compile(
    r"(?i)\b(?:system|user|developer|operator|admin\w*|gateway|above|before|previous\w*|earlier|you)\b"
)
_EMPTY = re.compile(
    r"(?i)example|sample|your|placeholder|changeme|change-me|dummy|fake|redacted|insert|replace|xxxx|\*\*\*|\.\.\.|0{6}|"
    r"12345|abcdef|test|todo|<[^<>]+>|\$\{?[A-Z_]"
)
_TOKEN = re.compile(r"[A-Za-z0-9+/_.-]+")
LEAST_ENTROPY = 3.0
"""Minimum bits per character of a key; words of a language have less."""


def _is_about_this_chat(found: str) -> bool:
    """False for instructions in pages and files, which good skills tell the agent to ignore."""
    tail = re.split(rf"(?i){_RULES}", found, maxsplit=1)[-1]
    return not _OF_OTHERS.search(tail) or _OF_THIS_CHAT.search(tail) is not None


WORDS: tuple[Rule, ...] = (
    Rule(
        name="prompt-override",
        level=BLOCK,
        pattern=rf"(?i)\b(?:{_FORGET}(?:{_S}{_ALL}){{0,4}}{_S}{_OLD}(?:{_S}{_OLD}){{0,2}}{_S}{_RULES}"
        rf"|{_OVERRIDE}(?:{_S}{_ALL}){{0,4}}{_S}{_OLD}(?:{_S}{_OLD}){{0,2}}{_S}(?:instructions?|prompts?|guidelines?"
        r"|directives?|directions?|policies|guardrails?))\b",
        words=True,
    ),
    Rule(
        name="prompt-override",
        level=BLOCK,
        pattern=rf"(?i)\b{_FORGET}(?:{_S}{_ALL}){{1,4}}{_S}(?:you (?:were|have been) told|above|before this"
        rf"|you know)\b",
        words=True,
    ),
    Rule(
        name="prompt-override",
        level=BLOCK,
        pattern=rf"(?i)\b{_FORGET}(?:{_S}{_ALL}){{1,4}}{_S}{_RULES}\b[^\n.]{{0,40}}",
        keep=_is_about_this_chat,
        words=True,
    ),
    Rule(
        name="prompt-override",
        level=BLOCK,
        pattern=rf"(?i)\b(?:safety|security|previous|prior|earlier|system|your)\s+{_RULES}\s+(?:no longer appl(?:y|ies)"
        r"|do(?:es)? not (?:apply|exist)|don'?t (?:apply|exist)|are (?:off|void|disabled|suspended|lifted))",
        words=True,
    ),
    Rule(
        name="prompt-override",
        level=BLOCK,
        pattern=r"(?:忽略|无视|忘记|忘掉|抛弃|绕过)(?:你)?(?:之前|以上|前面|先前|上面|原来|所有|全部|一切"
        r"|系统)[^\n。]{0,8}(?:指令|指示|提示|规则|说明|设定|限制)",
        words=True,
    ),
    Rule(
        name="prompt-override",
        level=BLOCK,
        pattern=r"(?i)\byou are (?:now|no longer) (?:in )?(?:an? )?(?:\"?dan\"?\b|developer mode|jailbroken"
        r"|unrestricted"
        r"|unfiltered|god mode|bound by|restricted|root\b|admin mode)|\b(?:enter|activate|enable) (?:god|dan"
        r"|jailbreak) mode\b"
        r"|\b(?:act|behave|respond|operate|answer) as (?:an? )?(?:\w+ )?(?:unrestricted|unfiltered|uncensored"
        r"|jailbroken)\b"
        r"|\bnew system prompt\s*:",
        words=True,
    ),
    Rule(
        name="fake-frame",
        level=BLOCK,
        pattern=r"(?i)<\|(?:im_start|im_end|system|endoftext|eot_id|start_header_id)\|>|\[/?INST\]|<</?SYS>>"
        r"|</?\s*antler-[a-z]"
        r"|</?(?:system|system[-_]prompt|system[-_]reminder|assistant|tool_(?:response|result)|function_results"
        r"|developer)>",
        words=True,
    ),
    Rule(
        name="fake-frame",
        level=WARN,
        pattern=r"</?(?:IMPORTANT|CRITICAL|SYSTEM[ _-]\w+|ADMIN)>|(?i:\[(?:system|admin|developer)\s*(?:message"
        r"|override|note)?\]\s*:)",
        words=True,
    ),
    Rule(
        name="hides-from-people",
        level=BLOCK,
        pattern=r"(?i)\b(?:secretly|covertly|surreptitiously|silently|quietly|stealthily|without (?:telling"
        r"|informing|notifying|alerting|asking|"
        rf"showing)\s+{_PEOPLE})\b[^\n.]*\b(?:{_TAKE}|run|execute|install|download|fetch|curl|delete|modify"
        rf"|exfiltrate)\b",
        words=True,
    ),
    Rule(
        name="hides-from-people",
        level=BLOCK,
        pattern=rf"(?i)\b(?:{_TAKE}|run|execute|install|download|fetch|curl|delete"
        rf"|modify)\b[^\n.]*\bwithout (?:telling|informing|notifying|alerting)"
        rf"\s+{_PEOPLE}",
        words=True,
    ),
    Rule(
        name="hides-from-people",
        level=WARN,
        pattern=rf"(?i)\b(?:do not|don'?t|never) (?:ever )?(?:tell|inform|notify|alert|mention (?:this |it "
        rf"|that )?to|reveal (?:this |it )?to|let)\s+"
        rf"{_PEOPLE}\b|不要(?:告诉|告知|通知|让)(?:用户|别人|任何人|管理员)",
    ),
    Rule(
        name="skips-approval",
        level=WARN,
        pattern=r"(?i)\b(?:do not|don'?t|never|without|no need to)\s+(?:ask(?:ing)?|wait(?:ing)?|request(?:ing)?"
        r"|seek(?:ing)?)\s+(?:for\s+)?(?:any\s+|the\s+"
        r"user'?s?\s+|user\s+)?(?:approval|permission|confirmation|consent)|\b(?:auto-?approve|approve (?:all|every"
        r"|any))\b",
        words=True,
    ),
    Rule(
        name="reads-secrets",
        level=BLOCK,
        pattern=rf"(?i)\b{_TAKE}{_FILLER}\s+[\"'`*(]*(?:~/|\$HOME/|/root/|/home/[\w.-]+/"
        rf"|\./)?(?:[\w.-]+/){{0,6}}{PRECIOUS}",
        places=Place.PROSE | Place.DATA,
        words=True,
    ),
    Rule(
        name="reads-secrets",
        level=BLOCK,
        pattern=rf"(?i)\b(?:print|send|include|dump|output|paste|reveal|post|upload|leak|exfiltrate|forward|append"
        rf"|collect|gather|share){_FILLER}\s+"
        r"(?:environment(?:\s+variables?)?|env(?:ironment)? vars?|system prompt|api keys?|access tokens?|credentials"
        r"|passwords|private keys?|"
        r"ssh keys?|secrets|conversation(?: history)?|chat history)\b[^\n.]*\b(?:to|in|into|at|with"
        r"|as)\b[^\n.]*(?:https?://|url|query|webhook|"
        r"server|endpoint|comment|image|link|base64|answer|response|repl(?:y|ies))",
        words=True,
    ),
    Rule(
        name="reads-secrets",
        level=WARN,
        pattern=rf"(?i)\b(?:print|send|include|dump|output|paste|reveal|leak"
        rf"|exfiltrate){_FILLER}\s+(?:environment variables|env vars|system prompt|"
        r"api keys|credentials|passwords|private keys?)\b|(?:读取|发送|输出|打印|上传|泄露)[^\n。]{0,12}(?:\.env"
        r"|密钥|环境变量|系统提示|密码|凭证|私钥)",
        words=True,
    ),
    Rule(
        name="image-exfiltration",
        level=BLOCK,
        pattern=r"!\[[^\]\n]*\]\(\s*https?://[^)\s]*[?&=/][^)\s]*(?:\{|\$|%7B|<[a-zA-Z]|\[[A-Z_ ]+\]|(?i:base64"
        r"|secret|token|conversation|history|data_here|"
        r"api_?key))",
        words=True,
    ),
    Rule(
        name="address-exfiltration",
        level=BLOCK,
        pattern=r"(?i)https?://[^\s)\"'`]*[?&=/][^\s)\"'`]*[{<\[$]+\s*(?:the[ _-])?(?:conversation|chat[ _-]?history"
        r"|history|memory|memories"
        r"|environment|env|secrets?|system[ _-]?prompt|file[ _-]?contents?|passwords?|credentials|user[ _-]?messages?)",
        words=True,
    ),
    Rule(
        name="uploads",
        level=WARN,
        pattern=r"(?i)\b(?:send|post|upload|forward|transmit|submit|report)\b[^\n.]*\b(?:files?|documents?|uploads?"
        r"|messages?|answers?"
        r"|results?|data|transcripts?|workspace|contents?)\b[^\n.]*\bto\b[^\n]*https?://",
        places=Place.PROSE,
    ),
    Rule(
        name="first-run-this",
        level=WARN,
        pattern=r"(?i)\b(?:prerequisites?|before (?:using|you (?:start|begin))|first)\b[^\n]{0,80}\b(?:download"
        r"|install|run|execute)\b[^\n]{0,80}"
        r"(?:https?://(?:github\.com/[^\s)]+/releases|[^\s)]+\.(?:exe|msi|dmg|pkg|zip|sh|ps1|bin|appimage|deb"
        r"|rpm)\b)|password\s*:)",
        places=Place.PROSE,
    ),
    Rule(
        name="self-change",
        level=WARN,
        pattern=r"(?i)\b(?:add|write|save|store|append|remember|persist)\b[^\n.]{0,60}\b(?:to|in"
        r"|into)\b[^\n.]{0,20}\b(?:long-term memory|your memory|"
        r"memory permanently|all future (?:conversations|sessions)|other skills)\b|/mnt/skills/(?:public|custom"
        r"|mine)/[^\s]*\s*(?:<<|>>?)",
        words=True,
    ),
)


def is_real(found: str) -> bool:
    """Whether a text may be a real key rather than a placeholder."""
    longest = max(_TOKEN.findall(found), key=len, default="")
    return not _EMPTY.search(found) and entropy(longest) >= LEAST_ENTROPY


def _rule(pattern: str) -> Rule:
    return Rule(name="secret", level=BLOCK, pattern=pattern, keep=is_real, secret=True)


SECRETS: tuple[Rule, ...] = (
    Rule(
        name="secret",
        level=BLOCK,
        pattern=r"-----BEGIN [A-Z ]*PRIVATE KEY-----\s*[A-Za-z0-9+/=\s]{64,}",
        secret=True,
    ),
    _rule(r"\b(?:sk|rk|pk)[-_](?:live|proj|ant|or|svcacct|admin)?[-_]?[A-Za-z0-9_-]{20,}"),
    _rule(r"\b(?:AKIA|ASIA|AGPA|AROA)[A-Z0-9]{16}\b"),
    _rule(r"\b(?:ghp|gho|ghs|ghu|ghr)_[A-Za-z0-9]{30,}|\bgithub_pat_[A-Za-z0-9_]{40,}|\bglpat-[A-Za-z0-9_-]{20,}"),
    _rule(r"\bxox[abprse]-[A-Za-z0-9-]{20,}|\bxapp-\d-[A-Za-z0-9-]{20,}"),
    _rule(r"\bAIza[A-Za-z0-9_-]{35}|\bya29\.[A-Za-z0-9_-]{30,}|\bhf_[A-Za-z0-9]{30,}|\bnpm_[A-Za-z0-9]{36}"),
    _rule(r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    _rule(r"\beyJ[A-Za-z0-9_-]{15,}\.eyJ[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{20,}"),
    _rule(r"https://hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{20,}"),
    _rule(r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d{15,}/[\w-]{40,}"),
    _rule(r"[a-z][a-z0-9+]*://[^\s/:@\"'<>{}$]+:[^\s/:@\"'<>{}$]{8,}@[\w.-]+"),
    Rule(
        name="secret",
        level=WARN,
        pattern=r"(?i)\b(?:api[_-]?key|secret|access[_-]?token|auth[_-]?token|password|passwd|client[_-]?secret)\b[\"']?\s*[:=]\s*"
        r"[\"'][A-Za-z0-9+/_.=-]{16,}[\"']",
        places=Place.ANYWHERE,
        keep=is_real,
        secret=True,
    ),
)
