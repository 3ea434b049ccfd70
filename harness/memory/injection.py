"""The injection filter: text addressed to the agent instead of about the person, and words that the person never used.

Anything that pretends to be a system instruction is never stored. A text that only tells the agent what to do may be
the person's wish ("always answer in German"), but not in a turn that read text written by strangers. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from harness.memory.redaction import plain

if TYPE_CHECKING:
    from collections.abc import Iterator


_OVERRIDE = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}\b(?:previous|prior|earlier|above|all|any|your|other|"
    r"safety|system)\b[^.\n]{0,30}\b(?:instructions?|rules?|prompts?|guidelines?|messages?|polic(?:y|ies)|guardrails?)\b"
    r"|\b(?:system|developer)\s+(?:prompt|message)\b|</?\s*(?:system|memory|instructions?|assistant|antler-[a-z-]+)\b"
    r"|\bjailbreak|\bdeveloper mode\b|\bwithout (?:asking|approval|confirmation)\b"
    r"|(?:忽略|无视|忘记|忘掉|绕过)[^。\n]{0,12}(?:之前|以前|以上|前面|先前|所有|一切|你的)[^。\n]{0,10}(?:指令|指示|规则|提示|设定|限制)|系统提示词?"
    r"|(?:无需|不用|不必)(?:询问|确认|批准)"
)
_DO = (
    r"(?:b?cc|send|forward|e-?mail|mail|post|upload|submit|leak|include|insert|append|attach|add|run|execute|call|invoke|"
    r"visit|open|click|fetch|download|install|reveal|share|recommend|mention|promote|reply|respond|answer|say|tell|write|"
    r"use|delete|transfer|pay|trust|approve|allow)"
)
_INSTRUCTION = re.compile(
    rf"(?i)\b(?:always|never|every time|each time|from now on|whenever|in (?:all|every|any) (?:future )?\w+)\b"
    rf"[^.\n]{{0,80}}?\b{_DO}\b"
    r"|\b(?:you|the (?:assistant|agent|bot|model|ai)|antler)\s+"
    r"(?:must|should|shall|will|have to|has to|needs? to|is to|can|may)\b"
    r"|\b(?:must|should|remember to|make sure to|be sure to|do not|don't)\s+(?:\w+\s+){0,2}?"
    rf"{_DO}\b|^\s*(?:please\s+)?{_DO}\b"
    r"|\b(?:b?cc|forward|send|upload|post)\b[^\n]{0,60}(?:@|https?:)"
    r"|(?:以后|今后|从现在起|从今以后|每次|总是|始终|一律|务必|必须|永远|一定要|不要|请)[^。\n]{0,20}"
    r"(?:抄送|密送|转发|发送|发给|发到|上传|执行|运行|调用|访问|打开|点击|下载|安装|回复|回答|推荐|提到|告诉|删除|转账|使用|添加|加上|附上|批准|允许)"
    r"|(?:助手|机器人|你)(?:必须|应该|应当|需要|要)"
)

_WORDS = re.compile(r"[a-z0-9\u00c0-\u024f\u0370-\u052f]+|[^\W_]")
_EXACT = re.compile(r"(?<!\S)\S*?(?:[@\d]|://|www\.)\S*")
"""Addresses and numbers: they must match exactly, however much of the rest is the same."""


def words(text: str) -> Iterator[str]:
    """The words of a text in order, case-folded; in scripts without blanks, each pair of characters."""
    before = ""
    for found in _WORDS.findall(unicodedata.normalize("NFKC", text).casefold()):
        if len(found) > 1 or found.isascii():
            yield found
            before = ""
        else:
            yield before + found
            before = found


def is_among(part: str, whole: frozenset[str], least: float) -> bool:
    """Whether at least this share of a text is among these words, including each address and number in it."""
    exact = (word for piece in _EXACT.findall(part) for word in words(piece))
    return share(part, whole) >= least and all(word in whole for word in exact)


def share(part: str, whole: frozenset[str]) -> float:
    """The share of a text that is among these words, 0 to 1; 0 for a text without words."""
    own = list(words(part))
    return sum(word in whole for word in own) / len(own) if own else 0.0


def is_override(text: str) -> bool:
    """Whether the text tries to change what the agent is: never remembered."""
    return _OVERRIDE.search(plain(text)) is not None


def is_instruction(text: str) -> bool:
    """Whether the text tells the agent what to do: not remembered if the turn read text written by strangers."""
    looked_at = plain(text)
    return is_override(looked_at) or _INSTRUCTION.search(looked_at) is not None
