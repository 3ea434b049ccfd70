"""中文（简体）。"""

from __future__ import annotations

from bot.texts.catalogue import Texts
from harness.events import FailureKind

ZH = Texts(
    working="处理中…",
    tool_running="{tool}：{summary}",
    tool_running_for="{tool}：{summary}（{age}）",
    retrying="模型繁忙，{seconds} 秒后重试…",
    resumed="重启后继续…",
    paused="因重启暂停，重启后马上继续…",
    no_slot="正在等待空位：同时最多生成 {limit} 个回答…",
    queued_next="已排队，下一个就是它",
    queued="已排队，排在{place}",
    queued_together="：{count} 条消息将一起回答",
    ordinals={"1": "第 {n} 位", "2": "第 {n} 位", "3": "第 {n} 位", "": "第 {n} 位"},
    stopped_by={
        "stopped": "⏹ 已停止。",
        "new_thread": "⏹ 已停止，因为开始了新对话。",
        "new_message": "⏹ 已停止，因为你发了新消息。",
        "admin_message": "⏹ 已停止，因为管理员发了新消息。",
        "rollback": "⏹ 已停止，因为你发了新消息。",
        "admin_rollback": "⏹ 已停止，因为管理员发了新消息。",
        "run_now": "⏹ 已停止，因为另一条消息被提前了。",
        "revoked": "⏹ 已停止：管理员收回了使用权限。",
    },
    forgotten="这次问答我已忘记。",
    not_forgotten="这次问答未能忘记，原因见日志。",
    dropped_by={
        "author": "⏹ 未回答：已按你的要求丢弃。",
        "admin": "⏹ 未回答：已被管理员丢弃。",
    },
    timed_out="⌛ 已达到单次回答的时间上限（{duration}），回答已停止。请缩小问题范围，或再问一次。",
    gave_up="⚠️ 我没能回答这条消息：处理时 Antler 意外停止了 {attempts} 次。管理员可以在日志中查看原因。请换个说法再问。",
    gave_up_admin="⚠️ 已放弃：`{conversation}` 中的运行 `{run}` 连续三次导致 Antler 意外停止。原因见日志。",
    lost_draft="⚠️ 这个回答中断了，无法继续。请再问一次。",
    failures={
        FailureKind.AUTH: "⚠️ 模型 {model} 的服务商拒绝了 API 密钥。需要管理员修改配置中的 `api_key`。",
        FailureKind.QUOTA: "⚠️ 模型 {model} 的账户余额不足。需要管理员充值。",
        FailureKind.NOT_FOUND: "⚠️ 服务商没有模型 {model}。请用 /models 选择其他模型。",
        FailureKind.RATE_LIMITED: "⚠️ 模型 {model} 暂时不接受更多请求。{wait}",
        FailureKind.CONTEXT_LENGTH: "⚠️ 内容超出了模型 {model} 一次能读的长度。请缩短内容，或用 /new 开始新对话。",
        FailureKind.CONTENT_FILTER: "⚠️ 服务商的内容过滤器拒绝了这个请求。请换个说法。",
        FailureKind.TIMEOUT: "⚠️ 模型 {model} 响应超时。请重试。",
        FailureKind.UNAVAILABLE: "⚠️ 暂时无法连接模型 {model}。请稍后再试。",
        FailureKind.EMPTY: "⚠️ 模型 {model} 重试后仍给出了空回答。请换个说法。",
        FailureKind.BAD_RESPONSE: "⚠️ 模型 {model} 的回答无法读取。请重试。",
        FailureKind.BAD_REQUEST: "⚠️ 模型 {model} 不接受这个请求。详情见日志。",
        FailureKind.INTERNAL: "⚠️ Antler 内部出错。详情见日志。",
    },
    retry_in="请在 {duration}后重试。",
    partial="以上内容未完成。",
    cut_short="⚠️ 模型一次不能输出更多内容，此回答在中途结束。可以让我继续。",
    calls_used_up="⚠️ 一次回答的 {limit} 次模型调用已用完（limits.model_calls），此回答可能不完整。可以让我继续。",
    images_not_seen="ℹ️ 模型 {model} 看不到图片，只知道你发了一张。用 /models 可查看其他模型。",
    file_problem={
        "too_large": "⚠️ 未接收 {name}：超过 {limit} MB。",
        "too_large_there": "⚠️ 未接收 {name}：超过了此平台允许机器人下载的大小。",
        "gone": "⚠️ 无法获取 {name}：文件已不存在。",
        "quota": "⚠️ 未接收 {name}：本次对话的文件已占满 {limit} MB。用 /new 可开始新对话。",
        "message_quota": "⚠️ 未接收 {name}：一条消息的文件总共不能超过 {limit} MB。请单独发送。",
        "person_quota": "⚠️ 未接收 {name}：你在一天内已发送 {limit} MB。请明天再试。",
        "failed": "⚠️ 无法获取 {name}。请重新发送。",
    },
    file_not_sent={
        "too_large": "⚠️ 未发送 {name}（{size} MB）：此平台只接受机器人发送不超过 {limit} MB 的文件。",
        "too_small": "⚠️ 未发送 {name}：此平台不接受空文件。",
        "no_files": "⚠️ 未发送 {name}：这里无法发送文件。",
        "refused": "⚠️ 未发送 {name}：此平台没有接受它。",
    },
    unknown_sender="我只回答名单上的人。你的 id 是 `{person}`；管理员可以用 `antler access allow {person}` 让你加入。",
    unclaimed=(
        "我还没有管理员。如果我是你的机器人，请把 `antler run` 启动时显示的认领码发给我。"
        "（`antler pair --claim` 可生成新的认领码。）"
    ),
    pairing_code=(
        "我们还不认识。这是你的配对码，{life}内有效：\n\n`{code}`\n\n"
        "请把它交给管理员，由管理员给我发送 `/pair {code}`，或运行 `antler pair {code}`。"
    ),
    pairing_over="这个配对码已失效。再给我发一条消息即可获取新的。",
    pairing_used="✅ 这个配对码已使用。",
    welcome="👋 管理员已让你加入。直接写下你的需要即可；/help 可查看其他功能。",
    claimed=(
        "🔑 你现在是我的管理员了。接下来：\n\n"
        "1. 给我发条消息：我就在这里回答。\n"
        "2. 让其他人加入：给我发消息的人会得到配对码，交给你后，你发送 `/pair 配对码`。\n"
        "3. 让我加入群聊：把我拉进群，然后在群里发送 /allow。\n\n"
        "/help 可查看全部功能。"
    ),
    access_revoked="管理员收回了你的使用权限，我不再回答。",
    code_refused="这个码无效：可能输错、已使用或已过期。",
    code_limit="错误的码太多，十分钟内不再检查。",
    code_in_group="码只能在与我的私聊中使用。写在这里的码已作废。",
    group_unknown="我还不能在这里说话。管理员可以用 /allow 允许我。",
    account_stopped_admin=(
        "⚠️ 账号 `{account}` 已停止，且无法自行恢复：\n\n{reason}\n\n其他账号照常运行。修改之后请重启 antler。"
    ),
    pair_usage="请输入对方从我这里得到的配对码：`/pair ABCD-EFGH-JKLM`。",
    paired="✅ `{name}`（`{person}`）现在可以和我对话，我已通知对方。如需收回：`/access revoke {person}`。",
    group_asked_admin=(
        "`{name}`（`{person}`）在一个未经允许的群里叫我：`{title}`。\n\n"
        "要让我在那里说话，请在群里发送 /allow，或运行 `antler access allow {group}`。否则我保持沉默。"
    ),
    group_joined_admin=(
        "`{name}`（`{person}`）把我拉进了群：`{title}`。\n\n"
        "要让我在那里说话，请在群里发送 /allow，或运行 `antler access allow {group}`。否则我保持沉默。"
    ),
    group_ask={
        "any": (
            "允许我在这个群（`{group}`）说话吗？允许后，群里的**所有人**（包括以后加入的）都可以使用我，"
            "我被叫到时，模型会读到群里的发言。"
        ),
        "listed": (
            "允许我在这个群（`{group}`）说话吗？允许后，群里**本身有权限的人**可以使用我，"
            "我被叫到时，模型会读到他们在群里的发言。"
        ),
    },
    group_allow="允许",
    group_cancel="取消",
    group_opened={
        "any": "✅ 我可以在这里说话了：所有人都可以 @我 或回复我。/disallow 可重新关闭。",
        "listed": "✅ 我可以在这里说话了，但只回答本身有权限的人。/disallow 可重新关闭。",
    },
    group_cancelled="没有任何改变：我在这里保持沉默。",
    group_is_open="我已经可以在这里说话了。/disallow 可关闭。",
    group_closed="🔒 我不再在这里回答。/allow 可重新打开。",
    allow_where="/allow 和 /disallow 要在群里发送。在这里可以按 id 操作：`/access allow ID` 和 `/access revoke ID`。",
    access_in_private="请在与我的私聊中使用。",
    access_other_account="这里只能更改 `{account}` 的 id；其他账号请在各自的聊天中操作，或使用 `antler access`。",
    access_head="**谁有权限**",
    access_more="- …… 还有 {count} 条：`antler access list`",
    access_hint="用 `/access allow ID` 和 `/access revoke ID` 更改。",
    access_allowed="✅ `{subject}` 现在有权限了。",
    access_taken="🔒 `{subject}` 不再有权限；正在为其进行的工作已停止。",
    access_state={
        "pending": "持有配对码，等待中",
        "paired": "已配对",
        "allowed": "已允许",
        "admin": "管理员",
        "blocked": "已禁止",
    },
    access_problem={
        "no_id": "{subject} 不是有效的 id：{detail}。",
        "no_account": "{subject} 不属于我的任何账号（{detail}）。",
        "operator": "{subject}：本机终端的使用者不需要权限。",
        "no_person": "{subject} 是群，只有人可以成为管理员。",
        "in_already": "{subject} 已经有权限。",
        "in_config_already": "{subject} 已经有权限（配置中的 `{detail}`）。",
        "in_config": "{subject} 写在配置的 `{detail}` 中：请在那里删除，然后重启我。",
        "out_already": "{subject} 已经被禁止。",
        "yourself": "{subject} 是你自己。请由其他管理员操作，或在本机使用 `antler access`。",
    },
    not_yours="只有发起的人可以决定。",
    refusals={
        "busy": "⚠️ 有 {count} 条消息未接收：这里还有一个回答正在生成。请等它完成后再发送，或先用 /stop 停止它。",
        "queue_full": (
            "⚠️ 有 {count} 条消息未接收：这里已有 {limit} 条在排队。"
            "请等待回答，用 /stop 停止当前回答，或用 /queue 丢弃一些。"
        ),
        "all_full": "⚠️ 有 {count} 条消息未接收：所有聊天中已共有 {limit} 条在排队。请过几分钟再发送。",
    },
    too_fast="⚠️ 发送过快：每人每分钟最多接收 {limit} 条消息，部分消息未接收。请稍等片刻再重新发送。",
    not_allowed="在这里只有管理员可以这样做。",
    command_menu={
        "new": "开始新对话：/new [标题]",
        "stop": "停止当前回答",
        "retry": "重新回答上一条消息",
        "queue": "正在回答和排队的消息；/queue clear 丢弃你的",
        "status": "连接、模型、对话和队列",
        "models": "列出或切换模型：/models [名称]",
        "memory": "我记住的关于你的内容（此版本尚无）",
        "whoami": "你的 id，用于配置",
        "help": "我能做什么",
    },
    admin_menu={
        "pair": "让一个人加入：/pair 配对码",
        "allow": "在群里：允许我说话",
        "disallow": "在群里：让我重新沉默",
        "access": "谁有权限；/access allow ID、/access revoke ID",
    },
    help_intro="给我发消息，我就会回答。在群里请 @我，或回复我的消息。命令：",
    help_admin="管理员命令：",
    help_line="- `/{command}` — {description}",
    unknown_command="没有命令 {command}。",
    did_you_mean="你是想用 {suggestion} 吗？",
    see_help="用 /help 查看全部命令。",
    new_thread="🆕 已开始新对话，我不会再看到之前的内容。",
    new_thread_titled="🆕 已开始新对话：**{title}**。我不会再看到之前的内容。",
    new_stopped_run="正在生成的回答已停止。",
    new_dropped="{count} 条排队中的消息已丢弃。",
    dropped_by_new="⏹ 未回答：还没轮到它，就开始了新对话。",
    dropped_by_revoke="⏹ 未回答：管理员收回了使用权限。",
    stop_nothing="这里没有正在生成的回答。",
    stop_not_yours="只有提问的人或管理员可以停止这个回答。",
    retry_nothing="这个对话里没有可以重新回答的内容。",
    retry_busy="这里还有内容正在回答。请先用 /stop 停止，或等它完成。",
    retry_not_yours="只有提问的人或管理员可以让我重新回答。",
    retry_not_newest="只能重试最新的回答。",
    retry_lost="上一次问答无法撤回，所以没有重新回答。请重新提问。",
    queue_nothing="这里没有正在回答的内容，也没有排队的消息。",
    queue_running="**正在回答：**`{text}`（`{name}`，已 {age}）",
    queue_head="**排队：**",
    queue_line="{number}. `{text}`（`{name}`，已等 {age}）",
    queue_more="… 还有 {count} 条",
    queue_arriving="还有 {count} 条正在接收",
    queue_hint="/queue clear 丢弃你排队的消息。",
    queue_cleared="已丢弃 {count} 条排队的消息。",
    queue_none_yours="这里没有你排队的消息。",
    models_head="**模型**",
    models_line="- `{name}`{detail}",
    models_current=" ← 当前会话",
    models_hint="用 `/models 名称` 切换。",
    model_switched="当前会话现在使用 `{model}`。",
    model_unknown="没有模型 `{name}`。可用：{known}。",
    memory_not_yet="这个版本还没有记忆功能：除当前对话外，我不会记住任何内容。",
    whoami="你是 `{person}`\n当前会话是 `{conversation}`",
    whoami_group="\n这个群是 `{chat}`（用于 `access.groups.allow`）",
    button_expired="这个按钮已失效。",
    button_run_now="立即回答",
    button_drop="丢弃",
    button_retry="重试",
    pressed={
        "now": "下一个就是它。",
        "drop": "已丢弃。",
        "retry": "正在重试。",
        "over": "已经结束了。",
        "begun": "已经在回答了。",
        "not_yours": "只有发消息的人或管理员可以这样做。",
        "not_yours_to_stop": "正在生成别人的回答，只有本人或管理员可以停止。",
    },
    status={
        "title": "**Antler {version}**，已运行 {uptime}",
        "connection": "连接：{state}，{age}前有活动",
        "connection_never": "连接：{state}，尚无活动",
        "detail": "  {detail}",
        "model": "模型：`{model}`",
        "thread": "对话：{title}{tokens}",
        "untitled": "无标题",
        "tokens": " · 读取 {input} 个 token，写出 {output} 个",
        "running": "运行中：已 {age}，{step}",
        "idle": "运行中：无",
        "queue": "排队：{count}",
        "step": "第 {calls} 次模型调用",
        "starting": "正在开始",
        "others": "其他连接：{states}",
        "connected": "已连接",
        "connecting": "正在连接",
        "retrying": "正在重连",
        "stopped": "已停止",
        "sandbox": "沙箱：{provider}，{state}",
    },
    sandbox_state={
        "starting": "正在启动",
        "off": "我没有文件，也不能执行命令",
        "failed": "在这台机器上不可用：我没有文件，也不能执行命令",
        "files": "在这台机器上不可用：我有文件，但不能执行命令",
        "none": "命令没有隔离",
        "restricted": "命令受限制，但隔离较弱",
        "full": "命令在隔离环境中执行",
    },
    second="{n} 秒",
    minute="{n} 分钟",
    hour="{n} 小时",
    day="{n} 天",
)
