"""Keeps secrets out of the memory: found by their context, pattern, checksum or entropy.

Pure; used before anything is queued (bot/memory), and on everything that is stored (merge.py).
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from harness.text.plain import entropy

if TYPE_CHECKING:
    from collections.abc import Iterator


_A = r"(?<![A-Za-z0-9])"
"""Start of an ASCII word; \\b does not match between a Chinese character and a letter."""
_Z = r"(?![A-Za-z0-9])"
KEYS = re.compile(
    rf"{_A}(?:"
    r"(?:sk|pk|rk)[-_][\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|"
    r"xapp-[\w-]{16,}|hf_\w{16,}|AIza[\w-]{20,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|ya29\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|"
    r"npm_\w{20,}|pypi-[\w-]{20,}|dop_v1_\w{20,}|shp(?:at|ss|ca)_\w{20,}|AGE-SECRET-KEY-1\w{20,}|"
    r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?|\d{6,12}:[A-Za-z0-9_-]{30,}"
    r")"
)
PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}-----|\Z)")
IN_URL = re.compile(r"(?<=://)[^\s/:@]{1,100}:[^\s/@]{1,200}(?=@)")
_BEARER = re.compile(r"(?i)\b(?:bearer|basic)\s+(?=\S*[\d=])([\w.~+/=-]{12,})")
WORD = re.compile(r"[a-zäöüß]+")
_PLAIN_WORDS = (
    "about again and because being broken but by case changed correct different difficult due empty enough "
    "expired fine for forgotten gone good hard here important in incorrect invalid kept known leaked long longer "
    "lost missing needed never no not now obsolete of old on only out outdated required reset safe saved secure "
    "set short simple still stored strong that the there too used valid very weak what when where wrong "
    "abgelaufen falsch geheim neu richtig sicher vergessen schwach correcto correcta incorrecto incorrecta caducada "
    "olvidada segura faux perdu valide errata scaduta sbagliata errada expirada "
)
NO_SECRETS = frozenset(_PLAIN_WORDS.split())
"""Plain words after "the password is" that are not secrets."""
_SECRET = (
    r"(?:pass[-_ ]?(?:word|wort|phrase|code)|passwd|pwd|passwort|kennwort|secret(?:[-_ ]?key)?|"
    r"(?:api|access|auth|private|license|recovery|encryption)[-_ ]?(?:key|token|secret)|(?:bot|refresh|session)[-_ ]?"
    r"token|token|credentials?|seed phrase|(?:backup|recovery)[-_ ]codes?|密码|口令|密钥|令牌|秘钥|暗号|"
    r"mot de passe|contrase(?:ñ|n)a|senha|parola d['’]ordine|wachtwoord|lösenord|hasło|şifre|mật khẩu|пароль|"
    r"パスワード|暗証番号|비밀번호|암호)"
)
_OPENERS = rf"(?:{_SECRET}|{_A}(?:pass|pw){_Z}|{_A}(?:wifi|wi-fi|wlan)[-_ ]key{_Z})"
"""Words that a password may follow directly."""
_KEY = rf"(?:{_OPENERS}|{_A}key{_Z})"
"""Words that have other meanings too: after them only a mix of letters and digits counts."""
_MIXED = r"(?=[!-~]{0,80}?\d)(?=[!-~]{0,80}?[A-Za-z])"
_NUMBERED = (
    r"(?:passport|driver['’]?s? licen[cs]e|identity card|id card|national insurance|tax id|steuer-?id|"
    r"护照|身份证|驾驶证|驾照)"
)
_ASSIGNED = re.compile(
    rf"(?i){_SECRET}[\"'`]?\s{{0,3}}(?:is|are|是|为)?\s{{0,3}}[=:]\s{{0,3}}[\"'`]?"
    r"([^\s\"'`,;,;。]{3,})"
)
SAID = re.compile(
    rf"(?i){_SECRET}\s{{0,3}}(?:(?:for|of|to)\s+[\w.'@-]{{1,40}}\s+){{0,2}}(?:(?:is now|is|was|are|ist|"
    r"lautet|est|es|é|è)(?![A-Za-z])|は|가|는|은|=|是|为|改成了?|叫)"
    r"\s{0,3}[\"'`“]?([!-~]{3,80})"
)
_QUOTED = re.compile(rf"(?i){_SECRET}\s{{0,3}}(?:is|was|ist|是|为)?\s{{0,3}}[\"'`“]([^\"'`”\n]{{3,200}})[\"'`”]")
_BEHIND = re.compile(
    rf"(?i){_OPENERS}(?![A-Za-z])[\"'`]?\s{{0,3}}[=:]?\s{{0,3}}[\"'`]?(?![-_/.,;:!?)(]){_MIXED}([!-~]{{5,80}})"
)
_BEHIND_CHINESE = re.compile(r"(?:密码|口令)\s{0,3}(\d{4,12})(?!\d)")
_BEHIND_KEY = re.compile(
    rf"(?i){_KEY}\s{{0,3}}(?:(?:is now|is|was|are)(?![A-Za-z])|[=:是为])\s{{0,3}}[\"'`]?{_MIXED}([!-~]{{5,80}})"
)
_PHRASE = re.compile(
    rf"(?i)\bmy\s+(?:[\w-]+\s+)?pass(?:word|phrase|code)\s+is\s+((?!(?:\w+ing|{'|'.join(_PLAIN_WORDS.split())})\b)"
    r"[a-z]+(?: [a-z]+){2,9})(?=\s*(?:[.,;!?\n]|$))"
)
_IN_ENVIRONMENT = re.compile(
    r"(?<![A-Za-z0-9_])(?:[A-Z0-9]+_)+(?:PASS|PWD|PASSWD|PASSWORD|SECRET|TOKEN|KEY|CREDENTIALS?)"
    r"\s{0,3}[=:]\s{0,3}[\"']?([^\s\"']{4,})"
)
_COOKIE = re.compile(r"(?i)\bcookie:\s*+([^\n=]{1,300}=[^\n]+)")
_HOOK = re.compile(
    r"https?://(?:[\w.-]*\bhooks?\.[\w.-]+/|\S{0,100}/(?:web)?hooks?/)((?=\S{0,200}\d)(?=\S{0,200}[A-Z])\S{16,})"
)
_IDENTITY = re.compile(
    rf"(?i){_NUMBERED}\s{{0,3}}(?:number|no\.?|nr\.?|号码?|#)?\s{{0,3}}(?:is|:|是|为)?\s{{0,3}}"
    rf"((?=[A-Z0-9]{{0,16}}\d\d)[A-Z0-9]{{6,18}}){_Z}"
)
_CARD_NAMED = re.compile(
    r"(?i)(?:银行卡|信用卡|储蓄卡|卡号|(?:card|account|konto)[ -]?(?:number|no\.?|nummer))"
    r"\s{0,3}(?:号码?)?\s{0,3}(?:is|ist|:|是|为)?"
    r"\s{0,3}(\d(?:[ -]?\d){11,18})(?!\d)"
)
_SEED = re.compile(
    r"(?i)(?:seed|recovery|mnemonic)\s+(?:phrase|words)\s*(?:is|are|:|=)\s*((?:[a-z]{3,8}[ ,]+){7,}[a-z]+)"
)
_PIN = re.compile(
    r"(?i)(?<![A-Za-z])(?:pin|cvv2?|cvc2?|(?-i:TAN))(?:[ -]?(?:code|number|码))?\s{0,3}(?:is|was|ist|=|:|是|为)?"
    r"\s{0,3}(\d{3,8})(?!\d)"
)
_CODE_NAME = (
    r"(?:one[- ]?time(?: pass(?:word|code))?|otp|2fa|mfa|two[- ]factor|verification|verify|security|log[- ]?in|"
    r"sign[- ]?in|confirmation|authentication|auth|access|unlock|door|gate|garage|alarm|safe|locker)"
)
_IS = r"\s{0,3}(?:is now|is|was|=|:|是|为)?\s{0,3}"
_CODE = re.compile(
    rf"(?i)(?:(?<![A-Za-z]){_CODE_NAME}\s+(?:code|pin|number)[^\d\n]{{0,20}}?"
    rf"|(?<![A-Za-z])your\s+(?:[A-Za-z-]+\s+)?code{_IS}"
    rf"|{_A}(?:otp|one[- ]?time (?:pass(?:word|code)|code)|2fa|mfa){_IS}"
    r"|(?:验证码|校验码|动态码|动态密码|取件码|门禁码)[^\d\n]{0,20}?)"
    r"(?<!\d)((?:[A-Z]-)?\d{3}[ -]?\d{3}|\d{4,8})(?!\d)"
)
CODE_FIRST = re.compile(
    rf"(?i)(?<!\d)(\d{{3}}[ -]?\d{{3}}|\d{{4,8}})\s+is\s+(?:your|my|the)\s+(?:[\w-]+\s+){{0,2}}?{_CODE_NAME}\b"
    rf"|(?<!\d)(\d{{3}}[ -]?\d{{3}}|\d{{4,8}})\s*(?:是|为)[^\d\n。]{{0,12}}(?:验证码|校验码|动态码)"
)
DIGITS = re.compile(r"(?<![\d.])\d(?:[ -]?\d){11,18}(?![\d])|(?<![\d.])\d{4}(?:\.\d{4}){3}(?![\d.])")
IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]{2,4}){3,8}[A-Za-z0-9]?(?![A-Za-z0-9])")
DIGIT = re.compile(r"\d")
CHINESE_ID = re.compile(r"(?<!\d)\d{17}[\dXx](?!\d)")
_SSN = re.compile(r"(?i)(?:ssn|social(?: security)?)[^\d\n]{0,20}(\d{3}-?\d{2}-?\d{4})(?!\d)")
TOKEN = re.compile(r"(?<![\w/.=&?@-])[A-Za-z0-9+/_=-]{20,}(?![\w@])")
UUID = re.compile(r"(?i)^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
POD = re.compile(r"^[a-z][a-z0-9]*(?:-[a-z0-9]+)*-[0-9a-f]{8,10}-[a-z0-9]{5}$")
DIGEST = re.compile(r"(?i)^(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})$")
NAMES_DIGEST = re.compile(
    r"(?i)(?:commits?|revision|rev|sha-?\d*|git|md5|hash(?:es)?|checksum|digest|tree|blob|branch|提交|哈希|校验和)"
    r"[\s:=#@`(\"']{0,4}(?:(?:of|for|is|was|the|file|value|at)[\s:=`(\"']{1,3}){0,5}$"
)
"""Text that marks the following number as a digest; without it, the number may as well be a key."""
LARGE = re.compile(r"^[A-Za-z0-9/+]{40}$")
TURNS = re.compile(r"[a-z](?=[A-Z0-9/+])|[A-Z](?=[a-z0-9/+])|\d(?=[A-Za-z])")
MOST_TURNS = 12
"""Limit for 40 characters; more changes between capitals, lower case and digits than in any path."""
BEHIND_HINTS = (_ASSIGNED, _QUOTED, _BEHIND, _BEHIND_KEY)
HINTS = (
    *("pass", "pwd", "pw", "kennwort", "secret", "key", "token", "credential", "seed", "code", "密", "口令", "令牌"),
    *("秘", "暗", "mot de", "contrase", "senha", "parola", "wacht", "lösen", "hasło", "şifre", "mật", "пароль"),
    *("パス", "비밀", "암호"),
)
"""In lower case; in a text with none of them, BEHIND_HINTS and SAID, the slowest patterns, find nothing."""
WITH_NAMES = (_BEARER, _PHRASE, _IN_ENVIRONMENT, _COOKIE, _SEED)
"""Their first group is the secret, as in BEHIND_HINTS and NUMBERS."""
NUMBERS = (_BEHIND_CHINESE, _HOOK, _PIN, _CODE, _SSN, _IDENTITY, _CARD_NAMED)
"""They all need a digit. Most texts have none: then these, and numbers that need no name, are not searched for."""

LEFT_OUT = "[left out]"
LONGEST_LOOKED_AT = 20_000
"""Characters; people do not write more, and the rest is not stored."""
_NEVER_SEEN = (
    "\u00ad\u034f\u115f\u1160\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\U000e0000-\U000e01ef"
)
_UNSEEN = re.compile(f"[{_NEVER_SEEN}\u200c\u200d\ufe00-\ufe0f]")
_HIDING = re.compile(f"[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f{_NEVER_SEEN}]")
"""Characters that can hide text from people, except those that join letters or emoji."""
LONGEST_BEFORE = 60
"""Characters before a digest in which it may be named."""


def plain(text: str) -> str:
    """The text to search: without invisible characters, compatibility letters replaced by plain ones."""
    return _UNSEEN.sub("", unicodedata.normalize("NFKC", text[:LONGEST_LOOKED_AT]))


def without_unseen(text: str) -> str:
    """The text as it is stored, without invisible characters: people see everything that the model reads."""
    return _HIDING.sub("", text)


def has_secret(text: str) -> bool:
    return next(_found(plain(text)), None) is not None


def without_secrets(text: str) -> str:
    """The text with a mark in place of each secret; unchanged if there is none."""
    looked_at = plain(text)
    spans = sorted(_found(looked_at))
    if not spans:
        return text[:LONGEST_LOOKED_AT]
    kept, place = [], 0
    for start, end in spans:
        if start >= place:
            kept += [looked_at[place:start], LEFT_OUT]
        place = max(place, end)
    return "".join([*kept, looked_at[place:]])


def _found(text: str) -> Iterator[tuple[int, int]]:
    """The spans of secrets; they may overlap. Marks of earlier redactions do not count."""
    text = text.replace(LEFT_OUT, "\n" * len(LEFT_OUT))
    for pattern in (PRIVATE_KEY, KEYS, IN_URL):
        yield from (found.span() for found in pattern.finditer(text))
    lowered = text.lower()
    hinted = any(hint in lowered for hint in HINTS)
    numbered = DIGIT.search(text) is not None
    for pattern in (*WITH_NAMES, *(BEHIND_HINTS if hinted else ()), *(NUMBERS if numbered else ())):
        yield from (found.span(1) for found in pattern.finditer(text))
    if hinted:
        yield from (found.span(1) for found in SAID.finditer(text) if _may_be_one(found, text))
    if numbered:
        yield from _numbers(text)
    for found in TOKEN.finditer(text):
        before = text[max(found.start() - LONGEST_BEFORE, 0) : found.start()]
        digest = DIGEST.match(found.group()) and NAMES_DIGEST.search(before)
        if not digest and _is_random(found.group()):
            yield found.span()


def _numbers(text: str) -> Iterator[tuple[int, int]]:
    """The spans of codes, card, account and identity numbers, found by form alone."""
    for found in CODE_FIRST.finditer(text):
        yield found.span(1) if found.group(1) else found.span(2)
    yield from (found.span() for found in DIGITS.finditer(text) if _is_card(found.group()))
    yield from (found.span() for found in IBAN.finditer(text) if _is_iban(found.group()))
    yield from (found.span() for found in CHINESE_ID.finditer(text) if _is_chinese_id(found.group()))


def _may_be_one(found: re.Match[str], text: str) -> bool:
    """Whether the value in "the password is ..." may be a secret, and not a plain word or the start of a phrase."""
    value = found.group(1).rstrip(".,;:!?)").lower()
    if WORD.fullmatch(value) is None:
        return len(value) >= 3
    rest = text[found.start(1) + len(value) :].lstrip(" ")
    return value not in NO_SECRETS and (not rest or rest[0] in ".,;!?\n)。,;!?")


def _is_card(number: str) -> bool:
    digits = [int(sign) for sign in number if sign.isdigit()]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6) or len(set(digits)) < 2:
        return False
    doubled = [digit if place % 2 == 0 else sum(divmod(2 * digit, 10)) for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def _is_iban(text: str) -> bool:
    """Check an IBAN (ISO 13616): the rearranged number mod 97 is 1."""
    plain_text = re.sub("[ -]", "", text).upper()
    if not 15 <= len(plain_text) <= 34:
        return False
    return int("".join(str(int(sign, 36)) for sign in plain_text[4:] + plain_text[:4])) % 97 == 1


def _is_chinese_id(text: str) -> bool:
    """Check an identity number (GB 11643): weighted sum of 17 digits, mod 11."""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(digit) * weight for digit, weight in zip(text[:17], weights, strict=True))
    return "10X98765432"[total % 11] == text[17].upper()


def _is_random(token: str) -> bool:
    """Whether letters and digits are mixed as in no word, date, path or file name."""
    if UUID.match(token) or POD.match(token):
        return False
    if LARGE.match(token) and len(TURNS.findall(token)) > MOST_TURNS:
        return True
    pieces = [piece for piece in re.split(r"[-_/=+]", token) if piece]
    mixed = [piece for piece in pieces if len(piece) >= 8 and len(re.findall(r"\d+", piece)) >= 2]
    mixed = [piece for piece in mixed if re.search(r"[A-Za-z]", piece)]
    return any(entropy(piece) >= (2.8 if len(piece) < 20 else 3.0) for piece in mixed) and entropy(token) >= 3.2
