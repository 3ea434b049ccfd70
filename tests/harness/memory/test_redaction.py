"""Secrets in what people say: what is taken for one, and what is not. All of these are made up."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from harness.memory.redaction import LEFT_OUT, has_secret, without_secrets
from tests.tables import table

SECRETS = [
    "my key is sk-proj-abcdefghijklmnop1234567890",
    "use sk_live_4eC39HqLyjWDarjtT1zdp7dc for payments",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "glpat-xxXX1234567890yyYY",
    "slack gave me " + "xoxb-" + "123456789012-abcdefABCDEF",  # in two parts: scanners of repositories
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-1234567890abcdefghijklmnopqrstu",
    "the bot: 123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
    "hf_abcdefghijklmnopqrstuvwx",
    "npm_abcdefghijklmnopqrstuvwxyz012345",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA",
    "postgres://anna:hunter22@db.example.org/app",
    "Authorization: Bearer abc123def456ghi789",
    "password: swordfish",
    "My password is hunter2",
    "my wifi password is swordfish.",
    "the password for gmail is tulips99",
    'the passphrase is "correct horse battery staple"',
    "api_key = 'abc123'",
    "client secret: Zx81-QQ",
    "pwd=letmein",
    "Mein Passwort ist Blume7",
    "密码是abc12345",
    "我的密码:hunter2",
    "银行卡密码为 482913",
    "令牌是 tok-99182",
    "PIN 4821",
    "my card's pin code is 4821",
    "CVV: 123",
    "your verification code is 482913",
    "G-482913 is your Google verification code",
    "482913 is your login code",
    "OTP 482 913",
    "验证码 384756",
    "384756 是您的验证码",
    "门禁码是 2580",
    "4111 1111 1111 1111",
    "pay with 5500-0055-5555-5559 please",
    "378282246310005",
    "IBAN DE89 3704 0044 0532 0130 00",
    "GB82WEST12345698765432",
    "身份证号 11010519491231002X",
    "SSN 078-05-1120",
    "seed phrase: witch collapse practice feed shame open despair creek road again ice least",
    "token dGhpcyBpcyBhIHNlY3JldCB0b2tlbiAxMjM0NTY3ODkw",
    "d41d8cd98f00b204e9800998ecf8427e is what it printed",
    "q7Xk29fLm3Zt8Vb4Ny6Rw1Pc",
    "the key is hunter2",
    "Password\nhunter2x",
    "my password is\nhunter2!",
    "login: bob / pass: Tr0ub4dor&3",
    "the wifi pw is blue42horse",
    "my password is purple monkey dishwasher seven",
    "服务器密码是:天王盖地虎",
    "wifi密码12345678",
    "取款密码4711",
    "账号 bob 密码 hunter2",
    "我的银行卡 6222 0200 0000 0000 003",
    "卡号4111111111111111有效期",
    "4111.1111.1111.1111",
    "mon mot de passe est Soleil2024",
    "мой пароль qwerty123",
    "パスワードはneko1234です",
    "비밀번호는 abcd1234",
    "DB_PASS=supersecret",
    "Cookie: session=abcdef1234567890",
    "https://hooks.example.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "aws gave me wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "my passport number is C01X00T47",
    "my social is 123-45-6789",
    "my 2fa backup code: 8f3k-29dk",
    "decode cGFzc3dvcmQ9aHVudGVyMg==",
    "pass\u200bword: swordfish",
    "pass\U000e0041word: swordfish",
    "密码是abc12345",
]
HARMLESS = [
    "I forgot my password again",
    "The password reset is broken",
    "The password is wrong",
    "the password policy is too strict for us",
    "Our token budget is 2000 per thread",
    "the access token expires after an hour",
    "She keeps her keys in the kitchen",
    "My favourite number is 42",
    "I was born on 1987-04-23",
    "Call me at +49 170 1234567",
    "order 20260412-0007 arrived",
    "the meeting is on 2026-11-21 at 17:00",
    "error code 404123",
    "my postal code is 94110",
    "The build 1234567890123456 failed",
    "invoice 1111 1111 1111 1111",
    "commit a1b2c3d fixes it",
    "report-2024-11-05-final-v2-draft.xlsx",
    "ThisIsAVeryLongFunctionNameInJava2",
    "my_module_with_a_long_name_v2_final_2024",
    "123e4567-e89b-12d3-a456-426614174000 is the ticket",
    "https://docs.example.org/document/d/1aB2c3D4e5F6g7H8i9J0kLmNoPq",
    "/mnt/user-data/workspace/2024/quarterly-report-07/summary-final.docx",
    "supercalifragilisticexpialidocious",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa11111111",
    "我喜欢喝茶,不喜欢咖啡",
    "我忘了密码",
    "我的生日是1987年4月23日",
    "她在腾讯工作了12年",
    "明天下午3点开会,地点在北京朝阳区建国路88号",
    "Prefers tabs over spaces, and Rust over Go",
    "DE is where I live, since 2004",
    "Donaudampfschifffahrtsgesellschaft",
    "He said basic arithmetic is enough",
    "the secret is out",
    "the secret of good bread is patience and time",
    "a safe number of people is 12",
    "pi is 3.14159265358979323846",
    "Mein Passwort ist abgelaufen.",
    "mi contraseña es incorrecta",
    "mon mot de passe est expiré",
    "I work in security since 2015",
    "I have access since 2019",
    "log in on 2024-05-01",
    "set an alarm for 6000 seconds",
    "auth service on port 8080",
    "we rolled out 2FA in 2022",
    "I got a tan in 2023",
    "your code has 1500 lines",
    "the safe 2024 plan",
    "door 1203, second floor",
    "verification of 1200 samples",
    "the token issue.",
    "a token estimate.",
    "our tokenizer2000x is slow",
    "commit 5d41402abc4b2a76b9719d911017c592e10b3f7c fixed it",
    "the md5 of the file is 5f4dcc3b5aa765d61d8327deb882cf99",
    "image sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "pod nginx-deployment-7fb96c846b-mtd6q crashes",
    "my order 112-4538291-9927412 has not come",
    "UPS 1Z999AA10123456784",
    "my login is anna92",
    "the key is to listen",
    "Cookie: chocolate chip",
    "https://example.dev/reference/hooks/use-effect-and-more",
    "我的手机号是13812345678",
    "工号 20231234",
    "微信号 wxid_abc123def",
    "my passport expires in 2027",
]


@table("text", SECRETS)
def test_a_secret_is_found_and_left_out(text: str) -> None:
    assert has_secret(text)
    kept = without_secrets(f"I live in Rome. {text}")
    assert kept.startswith("I live in Rome.")
    assert LEFT_OUT in kept
    assert not has_secret(kept), kept


@table("text", HARMLESS)
def test_other_things_stay_as_they_are(text: str) -> None:
    assert not has_secret(text), without_secrets(text)
    assert without_secrets(text) == text


def test_what_stands_around_a_secret_stays() -> None:
    said = "I moved to Rome. My password is hunter2, and I like tea."
    assert without_secrets(said) == f"I moved to Rome. My password is {LEFT_OUT} and I like tea."


@given(st.text(max_size=400))
def test_nothing_that_was_left_out_is_found_again(text: str) -> None:
    assert not has_secret(without_secrets(text))


@given(st.integers(10**15, 10**16 - 1))
def test_a_number_is_a_card_only_with_its_check_digit(number: int) -> None:
    wrong = [last for last in range(10) if has_secret(f"no. {number // 10 * 10 + last}")]
    assert len(wrong) <= 1


def test_long_and_hostile_texts_take_no_time() -> None:
    started = time.process_time()
    for text in ("password " * 3000, "1 " * 12_000, "a1" * 10_000, "DE89 " * 5000, "seed phrase is " + "word " * 5000):
        has_secret(text)
    assert time.process_time() - started < 5
