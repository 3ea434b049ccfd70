"""Whether a message sent after "Deny, and say why" explains the denial or is a new request.

A request mistaken for a reason is lost; a reason mistaken for a request only costs the model the explanation. So in
doubt, and in languages not covered here, it is a request. A reply to the question needs no such check. Pure.
"""

from __future__ import annotations

import re

_WANTS = re.compile(
    r"[?？]|https?:|^(?:what|when|where|who|whom|whose|which|why|how)\b"
    r"|\b(?:please|pls|plz|kindly|(?:can|could|would|will) you|would like|i'd like|let's|let us|what about"
    r"|(?<!n't )(?<!dont )(?<!not )(?<!no )(?<!never )(?<!longer )(?:want|need)"
    r"|how about|tell me|show me|give me|send me|help me|instead|remind|then)\b"
    r"|[请帮吗呢嘛么几哪]|麻烦|给我|告诉|提醒|一下|多少|改成|换成|改为|然后|再[来写发查订做]|我[要想]",
    re.IGNORECASE,
)
"""Signs of a wish or a question."""
_ORDERS = re.compile(
    r"(?:and|but|so|or|just|rather|better)?\s*(?:add|answer|apply|arrange|ask|book|bring|build|buy|calculate|call|cancel"
    r"|change|check|choose|clean|close|compare|convert|copy|correct|count|create|delete|describe|do|download|draft|draw"
    r"|edit|explain|export|extract|fetch|fill|find|finish|fix|follow|forget|forward|generate|get|give|go|help|import"
    r"|include|install|keep|learn|let|list|look|mail|make|mark|measure|merge|move|name|note|open|order|pay|pick|plan|play"
    r"|post|prepare|print|put|read|rename|replace|reply|report|research|reserve|review|rewrite|run|save|say|schedule"
    r"|search|see|select|sell|send|set|share|show|sort|split|start|stop|store|sum|summari[sz]e|take|talk|test|translate"
    r"|try|turn|update|upload|use|verify|wait|wake|warn|watch|work|write)\b(?! (?:is|was|has|did|does|will)\b)"
    r"|(?:还是|就|那就?)?(?:算(?!了)|[订查写发买找做画读看列改删建搜译把将打开](?!错)"
    r"|推荐|介绍|解释|总结|分析|比较|安排|准备|整理|生成|计算|检查|下载|预订|预定|取消|翻译)",
    re.IGNORECASE,
)
"""Beginnings of a sentence, or a clause, that gives an instruction."""
_CLAUSE = re.compile(r"[,;:.!，。；：！、\n]+\s*")
_VERB = (
    r"(?:is|are|was|were|am|has|have|had|does|do|did|will|would|can|cannot|could|should|must|may|might"
    r"|(?:is|are|was|were|has|have|had|does|do|did|wo|would|ca|could|should|must)n't"
    r"|costs?|looks?|seems?|belongs?|contains?|moved|changed|left|knows?|no longer|already|never)"
)
_EXPLAINS = re.compile(
    r"(?:because|since|cause|due to|as (?:it|he|she|they|we|i|the|that|this)|sorry|no|nope|nah|not|never|don't|do not"
    r"|dont|too|wrong|already|only|outdated|obsolete|unnecessary|private|secret|confidential|risky|dangerous|expensive"
    r"|duplicate|premature|irrelevant|enough|maybe later|later)\b"
    r"|(?:he|she|it|they)(?:'\w+)? "
    rf"|(?:that|this|these|those|there|nobody|no one|somebody|everybody)(?:'s| (?:[\w'-]+ ){{0,3}}?{_VERB}\b)"
    r"|(?:i|we|you)(?:'\w+)? (?:not|already|never|no longer|don't|do not|didn't|did not|haven't|won't|can't|cannot"
    r"|changed|made|meant|said|know|knew|sent|forgot|got|misspelled|mixed|have already|will do it|do it|did)\b"
    rf"|(?:the|a|an|my|our|his|her|its|their|your|all|some|most|both) (?:[\w'-]+ ){{1,5}}?{_VERB}\b"
    rf"|(?!(?:{_VERB}|i|we|you)\b)[\w'-]+ {_VERB}\b",
    re.IGNORECASE,
)
"""Beginnings of an explanation. The last alternative: a name or a single noun, followed by what it is or does."""
_EXPLAINS_CHINESE = re.compile(
    r"因为|由于|不[要用必是对行能想需可准好该同]|别|没|太|已|错|还[没不]|对方|暂时不|以后再|算了|过期"
    r"|[她他它](?!的)|我(?!的|要|想)|[^\s，。]{1,8}(?:已|太|不|没|错|过期)"
)


def reads_as_reason(text: str) -> bool:
    """Whether the text clearly explains why something should not be done."""
    said = " ".join(text.split()).replace("’", "'")
    clauses = _CLAUSE.split(said)
    if _WANTS.search(said) or any(_ORDERS.match(clause) for clause in clauses):
        return False
    return _EXPLAINS.match(said) is not None or any(_EXPLAINS_CHINESE.match(clause) for clause in clauses)
