"""The texts of the demo model's tour, one `TourTexts` per language. Imports nothing heavy: the terminal shows its list
before the agent is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TourTexts:
    """The texts. steps: one line each; people type their numbers, or their names, which tell what a thread is about.
    Sentences with braces are formatted by tour.py.

    antlers, kept: (title, sentence) of the parts of the two slowly growing answers.
    """

    screen: str
    can: str
    hello: str
    thanks: str
    unknown: str
    due: str
    hooked: str
    names: tuple[str, ...]
    steps: tuple[str, ...]

    chart_begin: str
    chart_label: str
    chart_done: str
    chart_plain: str
    plan_begin: str
    plan_middle: str
    plan_steps: tuple[str, str, str]
    plan_task: str
    plan_best: str
    plan_done: str
    order_begin: str
    order: str
    order_done: str
    order_denied: str
    ask: str
    ask_label: str
    asked_done: str
    remind: str
    remind_begin: str
    remind_done: str
    remember: str
    remember_options: tuple[str, str, str]
    remember_done: str
    steer_begin: str
    steer_heard: str
    steer_short: str
    steer_done: str
    antlers: tuple[tuple[str, str], ...]
    kill_begin: str
    kill_resumed: str
    kill_done: str
    kill_unharmed: str
    kept: tuple[tuple[str, str], ...]
    failed: str
    no_sandbox: str
    no_commands: str
    switched_off: str

    cups: str
    markdown: str
    long: str
    written: str
    tool: str
    tool_about: str
    delegated: str
    delegated_one: str
    reported: str
    sent: str
    answered: str
    answered_error: str


HOW_TO = "antler init"

EN = TourTexts(
    screen="""\
Antler, without a config.yaml: a demo model answers from a script, with no key and no network. Everything else is real.

{steps}

Type a number. "What can you do?" lists them again, /help the commands; Ctrl-D quits.
For a real model and your chats: `{how_to}` asks for what is needed, tests it, and starts again.""",
    can="""\
Type a number; each does the real thing. Only I am a script: the demo model, with no language model behind it.

{steps}

I also understand `markdown`, `long`, `run ls`, `write a file`, `delegate run ls; hello` and `remind me in 1 minute to \
stretch`. For a real model: `{how_to}`.""",
    hello="Hello! I am the demo model, a script. Type a number from 1 to 8, or ask “What can you do?”",
    thanks="You are welcome.",
    unknown="You wrote: “{said}”. I am the demo model, a script, and have no answer to that. “What can you do?” lists "
    "what I have.",
    due="It is time: {text}",
    hooked="A webhook asked for this: {text}",
    names=(
        "A chart",
        "A plan",
        "An approval",
        "A question",
        "A reminder",
        "Memory",
        "Steering",
        "Kill me",
    ),
    steps=(
        "a chart from a CSV file, made by pandas in the sandbox",
        "a plan, worked through by three subagents",
        "an approval: I ask before I write an order",
        "a question with options",
        "a reminder in ten seconds",
        "something remembered, then forgotten",
        "a message that reaches me while I work",
        "kill me: the answer continues after the next start",
    ),
    chart_begin="I put the figures of three invented coffee shops into the sandbox as `sales.csv` and chart them.",
    chart_label="drawing the chart",
    chart_done="Revenue in 2025 by shop, in EUR, as printed by the sandbox:\n\n{output}",
    chart_plain="""\
pandas is not in the sandbox yet, so plain Python drew this one: revenue in 2025 by shop, in EUR.

{output}

`make run` installs pandas in the background, which takes a minute or two at the first start (`make sandbox-runtime` \
shows it). Type `1` again then.""",
    plan_begin="I write a plan first: you see it, and its steps are checked off as they are done.",
    plan_middle="Now three subagents work in parallel, each in its own context.",
    plan_steps=("Put the figures into the sandbox", "One subagent for each shop", "Compare what they report"),
    plan_task="Add up {shop}'s year",
    plan_done="They reported:\n\n{reports}\n\n{best}The plan:\n\n{plan}",
    plan_best="{shop} earned most. ",
    order_begin="I am about to order 40 kg of coffee. A rule in the config may require your approval for that.",
    order="Order: 40 kg of coffee beans, for Harbour, Market and Station.\n",
    order_done="The order is written: `order.txt`. The built-in config has a rule that asks for approval (`guardrails.rules`); "
    "yours decides what needs it.",
    order_denied="You said no, so nothing was written. A denied call is never made; the model is told that, and why.",
    ask="Which shop's year shall I look at?",
    ask_label="looking at {shop}",
    asked_done="You chose {shop}. Its year, from `sales.csv`:\n\n{output}",
    remind="stretch",
    remind_begin="I am scheduling a reminder. If files were read or commands run in this thread before, you are asked first: the "
    "reminder might come from there.",
    remind_done="In ten seconds I will remind you to stretch, even after a restart. `/reminders` lists what is scheduled.",
    remember="What shall I remember? Choose, or write a sentence about yourself.",
    remember_options=("I like green tea", "I prefer short answers", "I work in Berlin"),
    remember_done="""\
{output}

New threads know it too: `/new`, then `/memory`. To have it forgotten, type `/memory forget 1`.""",
    steer_begin="I will tell you eight things about antlers, slowly. Meanwhile, type `shorter` or anything else: it reaches me "
    "before my next step.",
    steer_heard="You wrote “{said}” in the meantime, and I read it without starting over. A real model would use it; "
    "I only know `shorter`.",
    steer_short="You wrote “{said}” in the meantime, so I stop after {count} of {all}. In short: antlers are bone, shed and grown "
    "every year.",
    steer_done="That was all; nothing reached me in the meantime.",
    antlers=(
        ("Bone", "Antlers are bone, not horn."),
        ("Every year", "They are shed and grow again every year."),
        ("Speed", "Hardly anything else in a mammal grows as fast: large ones gain a centimetre or two a day."),
        ("Velvet", "While they grow, a furry skin full of blood vessels feeds them: the velvet."),
        ("Autumn", "In late summer it dries, and the deer rub it off on trees."),
        ("Reindeer", "Among reindeer, females have them too, which is rare."),
        ("Mice", "Shed ones do not last long: mice gnaw them for their minerals."),
        ("Without", "The water deer has none at all, but long canine teeth."),
    ),
    kill_begin="""\
I am process {pid}. While this answer grows, type in another terminal:

```
kill -9 {pid}
```

Then start Antler again with `make run`: the answer continues in its terminal.""",
    kill_resumed="Process {old} is gone; I am process {pid} and continue where it stopped.",
    kill_done="That was all: an answer, and more than one process.",
    kill_unharmed="That was all, and process {pid} is still the one that started. Type `8` to try again.",
    kept=(
        ("The message", "Your message was on disk before I began."),
        ("The steps", "Each step of my work is on disk before the next one begins."),
        ("The answer", "What you have read of this answer is on disk as well."),
        ("The start", "On start, I look for unfinished work and continue it, before anything new."),
        ("The step", "It continues at the last step: what was done is not done again."),
        ("The tools", "A tool call that was cut off is reported to the model, not repeated blindly."),
        ("The finals", "A finished answer that did not reach you is delivered first."),
        ("The limit", "Only what kills the process three times by itself is abandoned, and you are told."),
    ),
    failed="This did not work:\n\n{output}",
    no_sandbox="That needs a sandbox, and there is none here: `sandbox.use` in config.yaml sets where commands run and "
    "files live, and Antler's startup output says what is missing.",
    no_commands="That needs commands, and this machine's sandbox runs none: Antler's startup output says why. On Debian "
    "`apt-get install bubblewrap` helps. I can show files: try `list files` or `write a file`.",
    switched_off="That is turned off here: `{key}` in config.yaml.",
    cups="cups",
    markdown="""\
# What an answer can look like

This shows what your chat renders:

- **bold**, *italic*, `code` and [a link](https://example.org)
- a list
  1. with a list inside

> A quotation.

```python
def greet(name: str) -> str:
    return f"Hello, {name}!"
```

| dish | price |
|---|---|
| soup | 4.50 |
| bread | 1.20 |""",
    long="\n\n".join(
        f"Paragraph {number}. " + "The demo model has little to say, but says it at length. " * 6
        for number in range(1, 25)
    ),
    written="Hello from Antler's demo model.\n",
    tool="I use the tool `{tool}`.",
    tool_about="I use the tool `{tool}`: `{about}`",
    delegated="I delegate {count} parts of this to subagents.",
    delegated_one="I delegate {count} part of this to subagents.",
    reported="My subagents reported:",
    sent="Done. The file comes with this answer.",
    answered="Done. What `{tool}` returned:",
    answered_error="This did not work. What `{tool}` returned:",
)

ZH = TourTexts(
    screen="""\
Antler（没有 config.yaml）：由内置的演示模型按脚本回答，不需要密钥，也不需要网络。其余一切都是真的。

{steps}

输入数字即可。“你能做什么？”会再次列出，/help 列出命令，Ctrl-D 退出。
要接入真正的模型和聊天平台：`{how_to}` 会询问所需内容、逐项核对并重新启动。""",
    can="""\
输入数字，每一项都会真正执行。只有我是脚本：我是演示模型，背后没有语言模型。

{steps}

我还听得懂 `markdown`、`long`、`run ls`、`write a file`、`delegate run ls; hello` 和 `remind me in 1 minute to \
stretch`。要用真正的模型：`{how_to}`。""",
    hello="你好！我是演示模型，按脚本回答。请输入 1 到 8 的数字，或者问“你能做什么？”",
    thanks="不客气。",
    unknown="你写的是：“{said}”。我是按脚本回答的演示模型，对此没有答案。问“你能做什么？”可以看到我会的内容。",
    due="时间到了：{text}",
    hooked="Webhook 请求：{text}",
    names=("图表", "计划", "授权", "提问", "提醒", "记忆", "插话", "杀掉我"),
    steps=(
        "图表：用沙箱里的 pandas 读取 CSV 文件并画图",
        "计划：由三个子助手完成",
        "授权：写订单之前先问你",
        "带选项的提问",
        "十秒后的提醒",
        "记住一件事，再忘掉它",
        "在我工作时插话",
        "杀掉我：下次启动后回答会接着写",
    ),
    chart_begin="我把三家虚构咖啡店的数据放进沙箱（`sales.csv`），然后画图。",
    chart_label="正在画图",
    chart_done="各店 2025 年的营业额（欧元），沙箱的输出如下：\n\n{output}",
    chart_plain="""\
沙箱里还没有 pandas，所以这张图由纯 Python 画成：各店 2025 年的营业额（欧元）。

{output}

`make run` 会在后台安装 pandas，第一次启动时需要一两分钟（`make sandbox-runtime` 可以看到进度）。之后请再输入 `1`。""",
    plan_begin="我先写计划：你能看到它，每完成一步就会打勾。",
    plan_middle="现在三个子助手同时工作，各有自己的上下文。",
    plan_steps=("把数据放进沙箱", "每家店交给一个子助手", "比较它们的结果"),
    plan_task="汇总 {shop} 的全年数据",
    plan_done="结果如下：\n\n{reports}\n\n{best}计划：\n\n{plan}",
    plan_best="{shop} 收入最高。",
    order_begin="我要订购 40 公斤咖啡豆。配置里的规则可能要求你先同意。",
    order="订单\n40 公斤咖啡豆\n送往 Harbour、Market 和 Station\n",
    order_done="订单已写好：`order.txt`。内置配置里有一条规则要求先问你（`guardrails.rules`）；哪些操作要问，由你的配置决定。",
    order_denied="你没有同意，所以什么都没有写。被拒绝的调用不会执行，模型会得知结果和原因。",
    ask="要看哪家店的全年数据？",
    ask_label="正在查看 {shop}",
    asked_done="你选了 {shop}。它的全年数据（来自 `sales.csv`）：\n\n{output}",
    remind="活动一下",
    remind_begin="我来安排提醒。如果这个对话之前读过文件或运行过命令，会先问你：长期生效的内容可能来自那里。",
    remind_done="十秒后我会提醒你活动一下，重启之后也不会忘。`/reminders` 列出所有提醒。",
    remember="要我记住什么？请选择，或者写一句关于你自己的话。",
    remember_options=("我喜欢绿茶", "我喜欢简短的回答", "我在柏林工作"),
    remember_done="""\
{output}

新的对话也会知道：先 `/new`，再 `/memory`。想让我忘掉，请输入 `/memory forget 1`。""",
    steer_begin="我慢慢讲八件关于鹿角的事。这时请输入 `简短一点`，或者别的什么：它会在我的下一步之前送到。",
    steer_heard="你刚才写了“{said}”，我没有重新开始就读到了。真正的模型会照做，而我只懂“简短一点”。",
    steer_short="你刚才写了“{said}”，所以我讲到第 {count} 件就停（共 {all} 件）。简单说：鹿角是骨头，每年脱落，每年重新长出。",
    steer_done="讲完了，中途没有收到你的话。",
    antlers=(
        ("骨头", "鹿角是骨头，不是牛羊那样的角。"),
        ("每年", "它每年脱落，又重新长出来。"),
        ("速度", "哺乳动物身上几乎没有别的东西长得这么快：大的鹿角一天能长一两厘米。"),
        ("鹿茸", "生长期间，一层布满血管、带绒毛的皮肤供给它养分，这就是鹿茸。"),
        ("秋天", "夏末皮肤干枯，鹿会在树上把它蹭掉。"),
        ("驯鹿", "驯鹿的雌鹿也长角，这很少见。"),
        ("老鼠", "脱落的鹿角不会留很久：老鼠会啃它来补充矿物质。"),
        ("没有角", "獐根本没有角，只有长长的犬齿。"),
    ),
    kill_begin="""\
我是进程 {pid}。趁这个回答还在增长，请在另一个终端输入：

```
kill -9 {pid}
```

然后用 `make run` 重新启动 Antler：回答会在它的终端里接着写。""",
    kill_resumed="进程 {old} 已经不在了；我是进程 {pid}，从它停下的地方接着写。",
    kill_done="写完了：一个回答，不止一个进程。",
    kill_unharmed="写完了，还是原来的进程 {pid}。要再试一次，请输入 `8`。",
    kept=(
        ("消息", "在我开始之前，你的消息已经存盘。"),
        ("步骤", "每一步都先存盘，才开始下一步。"),
        ("回答", "你读到的这部分回答也已经存盘。"),
        ("启动", "启动时先找出没有完成的内容，接着做完，再处理新的。"),
        ("接续", "从最后一步接着做：做过的不会重做。"),
        ("工具", "中断的工具调用会告知模型，不会盲目重做。"),
        ("结果", "已经写完却没有送到的回答最先送出。"),
        ("上限", "只有三次让进程自己崩溃的内容才会放弃，并且会告诉你。"),
    ),
    failed="没有成功：\n\n{output}",
    no_sandbox="这需要沙箱，而这里没有：config.yaml 的 `sandbox.use` 决定命令在哪里运行、文件放在哪里，Antler 启动时会说明缺少什么。",
    no_commands="这需要运行命令，而这台机器的沙箱不能运行：原因见 Antler 启动时的说明。在 Debian 上可以 "
    "`apt-get install bubblewrap`。文件可以看：试试 `list files` 或 `write a file`。",
    switched_off="这里关闭了这项功能：config.yaml 的 `{key}`。",
    cups="杯",
    markdown="""\
# 回答可以是什么样子

下面是聊天窗口能显示的内容：

- **粗体**、*斜体*、`代码`和[链接](https://example.org)
- 列表
  1. 里面还有列表

> 一段引文。

```python
def greet(name: str) -> str:
    return f"你好，{name}！"
```

| 菜名 | 价格 |
|---|---|
| 汤 | 4.50 |
| 面包 | 1.20 |""",
    long="\n\n".join(f"第 {number} 段。" + "演示模型没什么可说的，但可以说得很长。" * 8 for number in range(1, 25)),
    written="你好，这是 Antler 的演示模型写的文件。\n",
    tool="我使用工具 `{tool}`。",
    tool_about="我使用工具 `{tool}`：`{about}`",
    delegated="我把这件事分成 {count} 部分，交给子助手。",
    delegated_one="我把这件事交给一个子助手。",
    reported="子助手的结果：",
    sent="完成。文件随这条回答发送。",
    answered="完成。`{tool}` 的输出：",
    answered_error="没有成功。`{tool}` 的输出：",
)


def texts_in(language: str) -> TourTexts:
    """The texts of a language such as "zh"; English for any other."""
    return ZH if language == "zh" else EN


def first_screen(language: str) -> str:
    """The terminal's first screen, if there is no config."""
    texts = texts_in(language)
    steps = "\n".join(f"  {number}  {step}" for number, step in enumerate(texts.steps, 1))
    return texts.screen.format(steps=steps, how_to=HOW_TO)


def abilities(texts: TourTexts) -> str:
    """The answer to "What can you do?", as Markdown."""
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(texts.steps, 1))
    return texts.can.format(steps=steps, how_to=HOW_TO)
