"""Patterns of secrets, and of what only looks like one; for hygiene.py."""

from __future__ import annotations

import re

_A = r"(?<![A-Za-z0-9])"
"""Where a word of ASCII begins; \\b sees none between a Chinese sign and a letter."""
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
"""Plain words behind "the password is", which are none."""

_SECRET = (
    r"(?:pass[-_ ]?(?:word|wort|phrase|code)|passwd|pwd|passwort|kennwort|secret(?:[-_ ]?key)?|"
    r"(?:api|access|auth|private|license|recovery|encryption)[-_ ]?(?:key|token|secret)|(?:bot|refresh|session)[-_ ]?"
    r"token|token|credentials?|seed phrase|(?:backup|recovery)[-_ ]codes?|密码|口令|密钥|令牌|秘钥|暗号|"
    r"mot de passe|contrase(?:ñ|n)a|senha|parola d['’]ordine|wachtwoord|lösenord|hasło|şifre|mật khẩu|пароль|"
    r"パスワード|暗証番号|비밀번호|암호)"
)
_OPENERS = rf"(?:{_SECRET}|{_A}(?:pass|pw){_Z}|{_A}(?:wifi|wi-fi|wlan)[-_ ]key{_Z})"
"""What a password may stand right behind, without a word between them."""
_KEY = rf"(?:{_OPENERS}|{_A}key{_Z})"
"""What has other meanings too: behind it only what mixes letters and digits counts."""
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
"""What says of a number that it names a state of a text; without it, it may as well be a key."""
LARGE = re.compile(r"^[A-Za-z0-9/+]{40}$")
TURNS = re.compile(r"[a-z](?=[A-Z0-9/+])|[A-Z](?=[a-z0-9/+])|\d(?=[A-Za-z])")
MOST_TURNS = 12
"""Of 40 signs; more changes between capitals, small letters and digits than any path has."""

BEHIND_HINTS = (_ASSIGNED, _QUOTED, _BEHIND, _BEHIND_KEY)
HINTS = (
    *("pass", "pwd", "pw", "kennwort", "secret", "key", "token", "credential", "seed", "code", "密", "口令", "令牌"),
    *("秘", "暗", "mot de", "contrase", "senha", "parola", "wacht", "lösen", "hasło", "şifre", "mật", "пароль"),
    *("パス", "비밀", "암호"),
)
"""In small letters; in a text with none of them BEHIND_HINTS and SAID, which take the longest, find nothing."""
WITH_NAMES = (
    *(_BEARER, _BEHIND_CHINESE, _PHRASE, _IN_ENVIRONMENT, _COOKIE, _HOOK, _SEED, _PIN, _CODE, _SSN, _IDENTITY),
    _CARD_NAMED,
)
"""The first group of these is the secret, and of BEHIND_HINTS."""
