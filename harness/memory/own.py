"""Whether a sentence to be remembered is what the person just said, retold in the third person. Pure.

The sentence may have other word endings, another grammatical person and the speaker's name, but no content word beyond
theirs: anything read elsewhere adds at least one. If in doubt it is not theirs, which only means that they are asked.
"""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"[a-z0-9\u00c0-\u024f\u0370-\u052f]+")
_ADDRESSES = ("@", "://", "www.")
_SENTENCE = re.compile(r"[.!?;\n。！？；]+\s*")
_FILLERS = """
a an the is are was were be been being am of to in on at for and or with that this these those it its as by from do does
did has have had having i me my mine we us our ours you your he him his she her hers they them their theirs user person
people speaker who whose which s m ve re ll d name named called also very
"""
_SAYS_NOTHING = frozenset(_FILLERS.split())
"""Words without content of their own."""
_SAME = {
    "love": "like", "enjoy": "like", "prefer": "like", "preferred": "like", "prefers": "like", "favorite": "like",
    "favourite": "like", "dislike": "hate", "reside": "live", "resides": "live", "based": "live", "job": "work",
    "employed": "work", "mum": "mother", "mom": "mother", "dad": "father", "colour": "color", "colours": "color",
    "children": "child", "kids": "child", "kid": "child", "wants": "want", "wish": "want", "wishes": "want",
    "born": "birthday", "speaks": "speak", "spoke": "speak", "bought": "buy", "has": "have", "went": "go",
}  # fmt: skip
_NOT = re.compile(r"\b(?:not|no|never|nor|neither|without|cannot|dont|\w+n't)\b|[不没别非无勿]")
_DO_NOT_FORGET = re.compile(r"\b(?:don't|do not|dont|never) (?:you )?forget\b|(?:不要|别|勿|不能)忘(?:了|记)?")
_ENDINGS = re.compile(r"(?:ies|ied|ically|ical|ic|ing|ed|es|s|ly|y|e)$")
_ORDINAL = re.compile(r"(?<!\d)(\d{1,4})(?:st|nd|rd|th)")
_CHINESE = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]+")
_CHINESE_SAYS_NOTHING = re.compile(
    r"用户|说话人|对方|本人|自己|我们|他们|她们|名字|叫做|名叫|居|[我你您他她它们的了是在于叫有会人个和与也很这那]"
)
_CHINESE_SAME = (("喜爱", "喜欢"), ("偏好", "喜欢"), ("热爱", "喜欢"), ("最爱", "喜欢"), ("讨厌", "不喜欢"))
PAIRS = 0.5
"""Minimum share of a Chinese sentence's character pairs that also occur in the person's words."""


def is_said(sentence: str, said: str, name: str) -> bool:
    """Whether the person said everything that the sentence says. name: of that person, which counts as said."""
    told, own = _plain(sentence), _plain(said)
    addresses = (piece.strip(",.;()<>") for piece in told.split() if any(mark in piece for mark in _ADDRESSES))
    if any(address not in own for address in addresses):
        return False
    content = _stems(told) - _stems(_plain(name))
    signs = _signs(told)
    if not (content or signs) or not content <= _stems(own) or not _in_signs(signs, _signs(own), _signs(_plain(name))):
        return False
    return _denies(told) == any(_denies(part) for part in _SENTENCE.split(own) if _is_about(part, content, signs))


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    for word, same in _CHINESE_SAME:
        folded = folded.replace(word, same)
    return folded


def _stems(text: str) -> set[str]:
    """The content words, without their endings."""
    found = set()
    for word in _WORD.findall(_NOT.sub(" ", _ORDINAL.sub(r"\1", text))):
        if word not in _SAYS_NOTHING:
            found.add(_stem(_SAME.get(word, word)))
    return found


def _stem(word: str) -> str:
    if word.isdigit() or len(word) < 4:
        return word
    if len(word) == 4 and word[-1] == "s" != word[-2]:
        return word[:-1]
    if len(word) > 4:
        stem = _ENDINGS.sub("", word)
        word = stem if len(stem) > 2 else word
        word = word[:-1] if word[-1] == word[-2] and word[-1] not in "sl" else word
    word = word.removesuffix("e")
    return _SAME.get(word, word)


def _signs(text: str) -> list[str]:
    """The runs of Chinese with content."""
    return _CHINESE.findall(_CHINESE_SAYS_NOTHING.sub(" ", _NOT.sub(" ", text)))


def _in_signs(runs: list[str], own: list[str], name: list[str]) -> bool:
    """Whether each character, and enough of the pairs, are among their own."""
    if not set("".join(runs)) <= set("".join(own + name)):
        return False
    pairs, known = _pairs(runs), set(_pairs(own) + _pairs(name))
    return sum(pair in known for pair in pairs) >= PAIRS * len(pairs)


def _pairs(runs: list[str]) -> list[str]:
    return [run[at : at + 2] for run in runs for at in range(len(run) - 1)]


def _denies(text: str) -> bool:
    return _NOT.search(_DO_NOT_FORGET.sub(" ", text)) is not None


def _is_about(part: str, content: set[str], signs: list[str]) -> bool:
    """Whether a sentence of theirs has any content in common."""
    return bool(content & _stems(part)) or bool(set("".join(signs)) & set("".join(_signs(part))))
