"""The demo model's tour: eight numbers, each a script of real tool calls, which the engine makes as for any model.

The next step is derived from the thread alone, so the tour also continues after a kill: which tools have answered in
this turn, how often the model spoke, what the person said meanwhile.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call

from harness.graph.calls import ASK, TASK
from harness.graph.messages import is_users, users_text
from sandbox.base import OUTPUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.messages import ToolCall

    from harness.models.tour_texts import TourTexts

SALES = Path(__file__).with_name("sales.csv")
SHOPS = ("Harbour", "Market", "Station")
DRAW = f"""\
import csv
try:
    import matplotlib, pandas
    matplotlib.use("Agg")
except ImportError:
    pandas = None
if pandas:
    sales = pandas.read_csv("sales.csv")
    table = sales.pivot_table(index="month", columns="shop", values="revenue", aggfunc="sum")
    axes = table.plot(marker="o", figsize=(8, 4.5), title="Revenue by month, EUR", xlabel="")
    path = "{OUTPUTS}/revenue.png"
    axes.figure.savefig(path, dpi=120, bbox_inches="tight")
    print(table.sum().astype(int).to_string(header=False))
    print("pandas", pandas.__version__)
else:
    totals = {{}}
    for row in csv.DictReader(open("sales.csv")):
        totals[row["shop"]] = totals.get(row["shop"], 0) + float(row["revenue"])
    bars = []
    for place, (shop, total) in enumerate(totals.items()):
        width, top = 300 * total / max(totals.values()), 20 + 40 * place
        bars.append(f'<rect x="90" y="{{top}}" width="{{width:.0f}}" height="24" fill="#2a7"/>')
        bars.append(f'<text x="10" y="{{top + 17}}">{{shop}}</text>')
        print(shop, round(total))
    path = "{OUTPUTS}/revenue.svg"
    with open(path, "w") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="420" height="150">' + "".join(bars) + "</svg>")
print("chart:", path)
"""
"""Run in the sandbox, in the folder of sales.csv; without pandas it draws with the standard library."""
TOTALS = """awk -F, '$2 == "{shop}" {{c += $3; r += $4}} END {{printf "%d {cups}, %.0f EUR", c, r}}' sales.csv"""
YEAR = """awk -F, '$2 == "{shop}" {{printf "%s %5d {cups} %9.2f EUR\\n", $1, $3, $4}}' sales.csv"""
_NOTHING_DRAWN = f"{OUTPUTS}/revenue.svg"
REMIND_SECONDS = 10
SLOWLY = 16
"""Factor on the model's usual pause between two words: a part takes a few seconds."""
SHORTER = re.compile(r"short|enough|brief|简短|短一点|够了|简单", re.IGNORECASE)
_CHART = re.compile(r"^chart: (\S+)$", re.MULTILINE)
_FENCED = re.compile(r"^(`{3,})\n(.*?)\n\1$", re.DOTALL | re.MULTILINE)
_EARNED = re.compile(r"(\d{1,12}) EUR")
_KILLED = re.compile(r"kill -9 (\d+)")


class Move(NamedTuple):
    """What the model says next, and the tools that it calls. slowly: factor on the usual pause between two words."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    slowly: int = 1


class Turn(NamedTuple):
    """said: the message that began the turn. since: the thread from there on. tools: names of the model's.

    asked: the question that `said` answers, "" for none.
    """

    said: str
    since: Sequence[BaseMessage]
    tools: frozenset[str]
    texts: TourTexts
    asked: str

    @property
    def results(self) -> list[ToolMessage]:
        return [message for message in self.since if isinstance(message, ToolMessage)]

    @property
    def spoken(self) -> list[str]:
        """The model's texts in this turn."""
        return [str(message.text) for message in self.since if isinstance(message, AIMessage)]

    @property
    def meanwhile(self) -> list[str]:
        """The person's further messages in this turn."""
        return [users_text(message).strip() for message in self.since if is_users(message)]

    def result(self, tool: str) -> ToolMessage | None:
        """The newest result of a tool."""
        return next((result for result in reversed(self.results) if result.name == tool), None)


def calling(name: str, args: dict[str, Any], number: int | str = "") -> ToolCall:
    """A call; number: distinguishes several in one message."""
    return tool_call(name=name, args=args, id=f"demo-{name}{number}")


def fenced(text: str) -> str:
    """A code block that the text cannot end."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def tour_move(turn: Turn) -> Move | None:
    """The next step of the tour; None if the turn is not part of it."""
    if turn.asked == turn.texts.ask:
        shop = next((shop for shop in SHOPS if shop.lower() == turn.said.lower()), None)
        if shop is not None:
            return _one_shop(turn, shop)
    begun = _step(turn.said)
    if begun is not None:
        return begun(turn)
    if turn.asked == turn.texts.remember and len(turn.said) > 1:
        return _remember(turn)
    return None


def _step(said: str) -> Callable[[Turn], Move] | None:
    words = said.strip().strip(".。!！").lower()
    return next((step for names, step in STEPS if re.fullmatch(names, words)), None)


def _lacks(turn: Turn, *tools: str) -> Move | None:
    """The answer if a step cannot be shown."""
    texts = turn.texts
    missing = next((tool for tool in tools if tool not in turn.tools), None)
    if missing is None:
        return None
    if missing in ("bash", "write_file"):
        return Move(texts.no_commands if "ls" in turn.tools else texts.no_sandbox)
    key = {"schedule": "schedules.enabled", TASK: "subagents.enabled", "remember": "memory.enabled"}
    return Move(texts.switched_off.format(key=key.get(missing, missing)))


def _failed(turn: Turn) -> Move | None:
    newest = turn.results[-1] if turn.results else None
    if newest is None or newest.status != "error" or newest.name == "write_file":
        return None  # the figures may exist from an earlier step; a missing one shows when it is used
    return Move(turn.texts.failed.format(output=fenced(str(newest.content))))


def _figures() -> ToolCall:
    return calling("write_file", {"path": "sales.csv", "content": SALES.read_text(encoding="utf-8")})


def _bash(command: str, label: str) -> ToolCall:
    return calling("bash", {"command": command, "description": label})


def _todos(steps: Sequence[str], done: int) -> ToolCall:
    """The plan with the first `done` steps completed and the next one in progress."""
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(steps)
    todos = [{"content": step, "status": state} for step, state in zip(steps, states, strict=False)]
    return calling("write_todos", {"todos": todos})


# The steps of each number.


def _chart(turn: Turn) -> Move:
    texts = turn.texts
    if (stop := _lacks(turn, "write_file", "bash") or _failed(turn)) is not None:
        return stop
    drawn = turn.result("bash")
    if turn.result("write_file") is None:
        return Move(texts.chart_begin, (_figures(),))
    if drawn is None:
        return Move("", (_bash(f"python3 - <<'END'\n{DRAW}END", texts.chart_label),))
    output = str(drawn.content)
    path = _CHART.search(output)
    if path is None:
        return Move(texts.failed.format(output=fenced(output)))
    if "present_files" in turn.tools and turn.result("present_files") is None:
        return Move("", (calling("present_files", {"paths": [path[1]]}),))
    told = texts.chart_plain if path[1] == _NOTHING_DRAWN else texts.chart_done
    return Move(told.format(output=fenced(_CHART.sub("", output).strip())))


def _plan(turn: Turn) -> Move:
    texts = turn.texts
    if (stop := _lacks(turn, "write_file", "bash", TASK)) is not None:
        return stop
    reports = [result for result in turn.results if result.name == TASK]
    if turn.result("write_file") is None:
        return Move(texts.plan_begin, (_todos(texts.plan_steps, 0), _figures()), SLOWLY // 2)
    if not reports:
        tasks = [_task(texts, shop, place) for place, shop in enumerate(SHOPS)]
        return Move(texts.plan_middle, (_todos(texts.plan_steps, 1), *tasks), SLOWLY)
    if len(turn.spoken) == 2:
        return Move("", (_todos(texts.plan_steps, len(texts.plan_steps)),))
    lines = [f"- {shop}: {_reported(report)}" for shop, report in zip(SHOPS, reports, strict=False)]
    earned = [
        (int(found[1]), shop) for shop, line in zip(SHOPS, lines, strict=False) if (found := _EARNED.search(line))
    ]
    best = texts.plan_best.format(shop=max(earned)[1]) if earned else ""
    done = "\n".join(f"- [x] {step}" for step in texts.plan_steps)
    return Move(texts.plan_done.format(reports="\n".join(lines), best=best, plan=done))


def _task(texts: TourTexts, shop: str, place: int) -> ToolCall:
    """A delegated task. The prompt is one that a demo model understands: subagents are demo models too."""
    prompt, description = f"run {TOTALS.format(shop=shop, cups=texts.cups)}", texts.plan_task.format(shop=shop)
    return calling(TASK, {"description": description, "prompt": prompt, "subagent_type": "general-purpose"}, place)


def _reported(report: ToolMessage) -> str:
    found = _FENCED.search(str(report.content))
    return found[2] if found is not None else str(report.content)[:200]


def _order(turn: Turn) -> Move:
    texts = turn.texts
    if (stop := _lacks(turn, "write_file")) is not None:
        return stop
    written = turn.result("write_file")
    if written is None:
        order = calling("write_file", {"path": f"{OUTPUTS}/order.txt", "content": texts.order})
        return Move(texts.order_begin, (order,))
    if written.status != "error" and "present_files" in turn.tools and turn.result("present_files") is None:
        return Move("", (calling("present_files", {"paths": [f"{OUTPUTS}/order.txt"]}),))
    return Move(texts.order_denied if written.status == "error" else texts.order_done)


def _question(turn: Turn) -> Move:
    texts = turn.texts
    if (stop := _lacks(turn, ASK)) is not None:
        return stop
    return Move("", (calling(ASK, {"question": texts.ask, "options": list(SHOPS)}),))


def _one_shop(turn: Turn, shop: str) -> Move:
    if (stop := _lacks(turn, "write_file", "bash") or _failed(turn)) is not None:
        return stop
    if turn.result("write_file") is None:
        return Move("", (_figures(),))
    shown = turn.result("bash")
    if shown is None:
        return Move("", (_bash(YEAR.format(shop=shop, cups=turn.texts.cups), turn.texts.ask_label.format(shop=shop)),))
    return Move(turn.texts.asked_done.format(shop=shop, output=fenced(str(shown.content))))


def _remind(turn: Turn) -> Move:
    if (stop := _lacks(turn, "schedule") or _failed(turn)) is not None:
        return stop
    if turn.results:
        return Move(turn.texts.remind_done)
    minutes = round(REMIND_SECONDS / 60, 3)
    return Move(
        turn.texts.remind_begin,
        (calling("schedule", {"action": "create", "text": turn.texts.remind, "in_minutes": minutes}),),
    )


def _ask_what_to_remember(turn: Turn) -> Move:
    texts = turn.texts
    if (stop := _lacks(turn, "remember", ASK)) is not None:
        return stop
    return Move("", (calling(ASK, {"question": texts.remember, "options": list(texts.remember_options)}),))


def _remember(turn: Turn) -> Move:
    if (stop := _lacks(turn, "remember", "recall") or _failed(turn)) is not None:
        return stop
    if turn.result("remember") is None:
        return Move("", (calling("remember", {"content": turn.said, "category": "preference"}),))
    recalled = turn.result("recall")
    if recalled is None:
        return Move("", (calling("recall", {}),))
    return Move(turn.texts.remember_done.format(output=str(recalled.content)))


def _steered(turn: Turn) -> Move:
    texts, count = turn.texts, len(turn.spoken) - 1
    heard = turn.meanwhile[-1] if turn.meanwhile else ""
    if count >= 0 and (short := next((said for said in turn.meanwhile if SHORTER.search(said)), None)) is not None:
        return Move(texts.steer_short.format(said=short, count=count + 1, all=len(texts.antlers)))
    is_new = heard and is_users(turn.since[-1])
    note = texts.steer_heard.format(said=heard) + "\n\n" if is_new else ""
    return _part(turn, texts.antlers, texts.steer_begin, note, "" if turn.meanwhile else texts.steer_done)


def _kill(turn: Turn) -> Move:
    texts, pid = turn.texts, os.getpid()
    named = [int(number) for text in turn.spoken for number in _KILLED.findall(text)]
    said_so = any(f" {pid}" in text for text in turn.spoken)
    note = texts.kill_resumed.format(old=named[0], pid=pid) + "\n\n" if named and not said_so else ""
    survived = bool(named) and named[0] != pid
    end = texts.kill_done if survived else texts.kill_unharmed.format(pid=pid)
    return _part(turn, texts.kept, texts.kill_begin.format(pid=pid), note, end)


def _part(turn: Turn, parts: Sequence[tuple[str, str]], begin: str, note: str, end: str) -> Move:
    """The next sentence of a slowly growing answer, each with a step of the plan, so that each is a checkpoint."""
    if (stop := _lacks(turn, "write_todos")) is not None:
        return stop
    count, steps = len(turn.spoken), [title for title, _ in parts]
    if count > len(parts):
        return Move(note + end)
    first = f"{begin}\n\n" if count == 0 else note
    sentence = f"{count + 1}. {parts[count][1]}" if count < len(parts) else ""
    return Move(first + sentence, (_todos(steps, count),), SLOWLY)


STEPS: tuple[tuple[str, Callable[[Turn], Move]], ...] = (
    (r"1|(?:a |the )?chart|图表", _chart),
    (r"2|(?:a |the )?plan|计划", _plan),
    (r"3|(?:an |the )?approval|授权", _order),
    (r"4|(?:a |the )?question|提问", _question),
    (r"5|(?:a |the )?reminder|提醒", _remind),
    (r"6|(?:the )?memory|记忆|记住一件事", _ask_what_to_remember),
    (r"7|steer(?:ing)?|插话", _steered),
    (r"8|kill me|杀掉我", _kill),
)
"""Pattern of a message, and the step for it."""
