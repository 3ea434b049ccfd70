"""A reason of a denial is told from a request; in doubt it is a request."""

from __future__ import annotations

import pytest

from bot.runs.reasons import reads_as_reason

REASONS = """
she has moved
She's on holiday until Monday
Ann has moved
because it is Sunday
not on a Sunday
too expensive
wrong person
no, that is the old address
it’s outdated
the address is wrong
our prices were changed last week
I already sent it
we don't do that here
That's private
don't write to customers
you mixed up the two
there is a typo in the name
Nobody knows him
I don’t want that
because I do not want it
no need
we no longer need it
后天再说，她已经搬家了
因为今天是周日
不用了，谢谢
太贵了
地址不对
他不认识我们
还没准备好
算了
写错了
""".strip().splitlines()
REQUESTS = """
Book a table
book a table for four at eight
what is the weather?
and the weather?
Weather in Paris
Please don't forget the milk
can you look at the report
I want a hotel in Rome
I don't want this one, I want a hotel in Rome
no, I need the other one
we do not need it, but send me the list
I am looking for a hotel in Rome
I have a question about taxes
no, send it to Bob
not on a Sunday, book it for Monday
she has moved. Find her new address
The weather in Paris tomorrow
this in German
you write a poem about it
which of them is cheaper
Is it raining
use the other address
make it shorter
only show me the first
Remind me tomorrow
Summarise what is in there
ok
hello
Rechnung 17 als PDF
das ist falsch
查一下天气
帮我订个位子
不对，发给小王
你写一首诗
今天星期几
这个文件翻译成英文
北京的天气
改成明天
她的邮箱写进表格
""".strip().splitlines()


@pytest.mark.parametrize("text", REASONS)
def test_what_explains_a_denial(text: str) -> None:
    assert reads_as_reason(text)


@pytest.mark.parametrize("text", REQUESTS)
def test_what_asks_for_something_or_may(text: str) -> None:
    assert not reads_as_reason(text)
