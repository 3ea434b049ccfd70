"""Rules about keys and passwords that stand in a skill."""

from __future__ import annotations

import math
import re
from collections import Counter

from harness.skills.scanning.rules import BLOCK, WARN, Rule
from harness.skills.scanning.texts import Place

_EMPTY = re.compile(
    r"(?i)example|sample|your|placeholder|changeme|change-me|dummy|fake|redacted|insert|replace|xxxx|\*\*\*|\.\.\.|0{6}|"
    r"12345|abcdef|test|todo|<[^<>]+>|\$\{?[A-Z_]"
)
_TOKEN = re.compile(r"[A-Za-z0-9+/_.-]+")
LEAST_ENTROPY = 3.0
"""Bits per character of what may be a key; words of a language have less."""


def is_real(found: str) -> bool:
    """Whether a text may be a key rather than the place for one."""
    longest = max(_TOKEN.findall(found), key=len, default="")
    return not _EMPTY.search(found) and entropy(longest) >= LEAST_ENTROPY


def entropy(text: str) -> float:
    """In bits per character."""
    counts = Counter(text)
    return -sum(count / len(text) * math.log2(count / len(text)) for count in counts.values()) if text else 0.0


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
