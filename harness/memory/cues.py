"""How people put the agent right, or say that it is right: told to the model that updates the memory. Pure."""

from __future__ import annotations

import re
from typing import Literal

from harness.memory.hygiene import plain

Cue = Literal["correction", "reinforcement"]
LOOKED_AT = 600
"""Characters at the beginning of what was said: people say so first."""

_CORRECTION = re.compile(
    r"(?i)^\s*(?:no\b(?!\s+(?:problem|worries|idea|need|rush|thanks|thank you))|nope\b|wrong\b|actually\b|not quite\b)"
    r"|\bthat(?:'s| is|’s) (?:wrong|incorrect|not (?:right|correct|true|what i (?:meant|said|asked|wanted)))\b"
    r"|\byou(?:'re| are|’re)? (?:wrong|mistaken|misunderst\w+|got (?:it|that|this|me) wrong|mixed (?:it|that|up)\w*)\b"
    r"|\bi (?:meant|mean|said|never said|didn['’]t (?:say|mean))\b|\b(?:correction|i stand corrected)\b"
    r"|\b(?:not|isn['’]t|don['’]t) [^.!?\n]{1,60}\b(?:but|anymore|any more|any longer)\b"
    r"|\b(?:no longer|it(?:'s|’s| is) (?:now )?actually|try again|redo)\b"
    r"|(?:不对|不是(?:这样|这个意思|的)|错了|弄错|搞错|记错|说错|理解错|不正确|有误|我(?:是说|的意思是|说的是|没说)|其实(?:我|是|应该)|"
    r"更正|纠正|改成|不再|应该是|并不是|并非)"
)
_REINFORCEMENT = re.compile(
    r"(?i)\b(?:exactly|precisely|perfect(?:ly)?|spot on|nailed it|well remembered|good memory)\b"
    r"|\b(?:that|you)(?:'s| is|’s|'re| are|’re) (?:right|correct|true|it\b|(?:just |exactly )?what i meant)"
    r"|^\s*(?:yes|yep|yeah|right|correct|indeed|true)\b[,.! ]"
    r"|\b(?:keep doing|just like (?:that|this)|i (?:still|always|really do))\b"
    r"|(?:对的|没错|正是|就是这样|就是这个|完全正确|说得对|说对了|记得没错|记性真好|太好了|完美|很好[,,!!。]|是的)"
)


def cues(text: str) -> tuple[Cue, ...]:
    """What a person's words say of what the agent said before. Guesses: the model decides."""
    said = plain(text[:LOOKED_AT])
    found: list[Cue] = []
    if _CORRECTION.search(said):
        found.append("correction")
    if _REINFORCEMENT.search(said):
        found.append("reinforcement")
    return tuple(found)
