"""English."""

from __future__ import annotations

from bot.texts.catalogue import Texts
from harness.events import FailureKind

EN = Texts(
    working="Working…",
    plan_step="📋 {number}/{count} {step}",
    tool_running="{tool}: {summary}",
    tool_running_for="{tool}: {summary} ({age})",
    tasks={
        "one": "1 task: ",
        "many": "{count} tasks: ",
        "done": "{count} done",
        "failed": "{count} failed",
        "running": "{count} running: {tasks}",
        "waiting": "{count} waiting: {tasks}",
        "age": "{task} ({age})",
        "and": ", ",
    },
    retrying="The model is busy, trying again in {seconds} s…",
    thinking="💭 {line}",
    resumed="Resumed after a restart…",
    paused="Paused for a restart; I continue right after it…",
    held="Antler stopped unexpectedly while working on this, twice or more; I go on once it has run undisturbed for a while…",
    no_slot="Waiting for a free slot: {limit} answers are being made, the most at one time…",
    queued_next="Queued, next in line",
    queued="Queued, {place} in line",
    queued_together=": {count} messages, answered together",
    steering="↪ For the answer at work, which takes it in at its next step",
    steered="↪ Passed on: the answer at work has taken it in.",
    ordinals={"1": "{n}st", "2": "{n}nd", "3": "{n}rd", "": "{n}th"},
    stopped_by={
        "stopped": "⏹ Stopped.",
        "new_thread": "⏹ Stopped, because a new thread was started.",
        "new_message": "⏹ Stopped, because you wrote something new.",
        "admin_message": "⏹ Stopped, because an administrator wrote something new.",
        "rollback": "⏹ Stopped, because you wrote something new.",
        "admin_rollback": "⏹ Stopped, because an administrator wrote something new.",
        "run_now": "⏹ Stopped, because another message was put first.",
        "revoked": "⏹ Stopped: an administrator has taken back the access.",
        "forgotten": "⏹ Stopped: what this belongs to is being deleted.",
    },
    forgotten=" I have forgotten this exchange.",
    not_forgotten=" I could not forget this exchange; the log says why.",
    dropped_by={
        "author": "⏹ Dropped.",
        "admin": "⏹ Dropped by an administrator.",
    },
    timed_out="⌛ Stopped after {duration}, the longest one answer may take. Ask for a smaller step, or ask again.",
    gave_up=(
        "⚠️ I could not answer this message: Antler stopped unexpectedly {deaths} times while working on it. "
        "The administrators can see why in the log. Try again, or ask in other words."
    ),
    gave_up_admin="⚠️ Given up: run `{run}` in `{conversation}` brought Antler down three times. The log says why.",
    lost_draft="⚠️ This answer was interrupted and cannot be continued. Please ask again.",
    failures={
        FailureKind.AUTH: "⚠️ The provider of the model {model} refused the API key. An administrator needs to correct `api_key` in the config.",
        FailureKind.QUOTA: "⚠️ The account for the model {model} has no credit left. An administrator needs to top it up.",
        FailureKind.NOT_FOUND: "⚠️ The provider does not know the model {model}. Choose another with /models.",
        FailureKind.RATE_LIMITED: "⚠️ The model {model} takes no more requests at the moment.{wait}",
        FailureKind.CONTEXT_LENGTH: "⚠️ That is more text than the model {model} can read at once. Send less, or start afresh with /new.",
        FailureKind.CONTENT_FILTER: "⚠️ The provider's content filter refused this request. Please put it in other words.",
        FailureKind.TIMEOUT: "⚠️ The model {model} did not answer in time. Please try again.",
        FailureKind.UNAVAILABLE: "⚠️ The model {model} cannot be reached at the moment. Please try again later.",
        FailureKind.EMPTY: "⚠️ The model {model} gave an empty answer, even when asked again. Please put it in other words.",
        FailureKind.BAD_RESPONSE: "⚠️ The model {model} sent something unreadable. Please try again.",
        FailureKind.BAD_REQUEST: "⚠️ The model {model} did not accept the request. The log has the details.",
        FailureKind.BUDGET: "⚠️ There is no answer, because a budget was used up before there was one.",
        FailureKind.INTERNAL: "⚠️ Something went wrong inside Antler. The log has the details.",
    },
    retry_in=" Try again in {duration}.",
    platform_refused={
        "answer": "⚠️ This platform refused my answer, so it cannot be shown here. Ask for it in other words, or for less of it.",
        "part": "⚠️ This platform refused a part of this answer, which is missing above. Ask for that part in other words.",
        "topic": "⚠️ I could not post an answer in one of the topics here: it is closed or locked, or I may not write in it. Open it again, or ask me outside it.",
        "buttons": "Answer with a number.",
    },
    partial="The text above is not finished.",
    cut_short="⚠️ This answer was cut off: the model may not write more at once. Ask me to go on.",
    budget_of={
        "run": "the budget of one answer",
        "conversation_day": "this chat's budget of today",
        "speaker_day": "your budget of today",
        "gateway_day": "the budget that all chats share today",
    },
    budgets={
        "refused": "⚠️ Not answered: {budget} is used up (`{key}`).",
        "stopped": "⚠️ I stopped here because {budget} is used up (`{key}`), so this answer may be incomplete.",
        "warning": "ℹ️ {percent} % of {budget} is used (`{key}`).",
        "resets": " It starts again in {duration}, at midnight ({zone}).",
    },
    looped="⚠️ I was about to do the same thing for the {count}th time, so I stopped; this answer may be incomplete. Tell me how to go on.",
    calls_used_up="⚠️ I used up the {limit} model calls of one answer (limits.model_calls), so it may be incomplete. Ask me to go on.",
    images_not_seen="ℹ️ The model {model} cannot see images; it was only told that you sent one. /models lists others.",
    fell_back="ℹ️ `{model}` answered, because `{instead_of}` could not.",
    file_problem={
        "too_large": "⚠️ {name} was not taken: it is larger than {limit} MB.",
        "too_large_there": "⚠️ {name} was not taken: it is larger than bots may fetch here.",
        "gone": "⚠️ {name} could not be fetched: it is no longer there.",
        "quota": "⚠️ {name} was not taken: the files of this thread already fill {limit} MB. /new starts an empty one.",
        "message_quota": (
            "⚠️ {name} was not taken: the files of one message may have {limit} MB together. Send it by itself."
        ),
        "person_quota": "⚠️ {name} was not taken: you have sent {limit} MB within a day. Try again tomorrow.",
        "failed": "⚠️ {name} could not be fetched. Please send it again.",
    },
    listening="Listening…",
    voice_problem={
        "off": "🎤 I cannot listen to voice messages: `transcription` is not configured. Please write.",
        "too_long": "🎤 I did not listen to the voice message: it is longer than {limit} min.",
        "too_large": "🎤 I did not listen to the voice message: it is larger than {limit} MB.",
        "gone": "🎤 I could not listen to the voice message: the file is no longer there.",
        "format": "🎤 I could not listen to the voice message: the transcription service did not accept the recording.",
        "key": (
            "🎤 I could not listen to the voice message: the transcription service refused the API key. "
            "An administrator needs to correct `transcription.api_key` in the config."
        ),
        "model": (
            "🎤 I could not listen to the voice message: the transcription service does not know the model. "
            "An administrator needs to correct `transcription.model` or `transcription.base_url` in the config."
        ),
        "quota": (
            "🎤 I could not listen to the voice message: the account for transcription has no credit left. "
            "An administrator needs to top it up."
        ),
        "busy": (
            "🎤 I could not listen to the voice message: the transcription service takes no more requests at the moment."
        ),
        "timeout": "🎤 I could not listen to the voice message: the transcription service did not answer in time.",
        "unavailable": "🎤 I could not listen to the voice message: the transcription service cannot be reached.",
        "garbage": "🎤 I could not listen to the voice message: the transcription service sent something unreadable.",
        "silent": "🎤 I heard no words in the voice message.",
        "failed": "🎤 I could not listen to the voice message. The log has the details.",
    },
    file_not_sent={
        "too_large": "⚠️ {name} ({size} MiB) was not sent: this platform takes files of at most {limit} MiB from a bot.",
        "too_small": "⚠️ {name} was not sent: this platform takes no empty files.",
        "no_files": "⚠️ {name} was not sent: no files can be sent here.",
        "refused": "⚠️ {name} was not sent: this platform did not take it.",
    },
    approval_asks="🔐 **I need a decision before I go on.** For `{name}` I want to call `{tool}` with:",
    approval_why="Why I ask: {reason}",
    approval_terms=(
        "“For this chat” covers {coverage}. Only `{name}` or an administrator can decide. "
        "Without a decision in {duration} it counts as denied. (`{hash}`)"
    ),
    approval_exact_terms={
        "once": "It counts for exactly this. Only `{name}` or an administrator can decide. "
        "Without a decision in {duration} it counts as denied. (`{hash}`)",
        "admins": "It counts for exactly this, for everybody here, so only an administrator can allow it. "
        "Without a decision in {duration} it counts as denied. (`{hash}`)",
    },
    approval_coverage={"call": "exactly this call", "tool": "`{tool}` with any arguments"},
    approval_write_why="✍️ Why not? Reply to this message, or press Deny. In a direct chat, your next message within 2 minutes counts too.",
    approval_decided={
        "once": "✅ **Allowed once:** `{tool}`",
        "chat": "✅ **Allowed for this chat:** `{tool}`",
        "deny": "⛔ **Denied:** `{tool}`",
        "expired": "⌛ **Nobody decided in time, so it is denied:** `{tool}`",
        "stopped": "⏹ **Not done, the answer was stopped before a decision:** `{tool}`",
    },
    approval_reason="Because: {reason}",
    approval_buttons={
        "once": "Allow once",
        "chat": "Allow for this chat",
        "deny": "Deny",
        "why": "Deny, and say why",
        "stop": "Stop",
    },
    approval_answers={
        "once": "Allowed once.",
        "chat": "Allowed for this chat.",
        "deny": "Denied.",
        "why": "Reply to the request and say why.",
        "stop": "Stopped.",
        "not_yours": "Only the person who asked, or an administrator, can decide this.",
        "admins": "Only an administrator can allow this.",
        "taken_back": "Taken back: I ask again.",
        "over": "That is over already.",
    },
    waiting_for_decision="Waiting for a decision",
    queued_behind_approval="Queued. First I need your decision: {tool} {about}",
    approvals_head="**Allowed in this chat without asking:**",
    approvals_none="Nothing is allowed in this chat without asking beyond what the rules allow.",
    approvals_line="{number}. `{tool}`{covered}, {whose}",
    approvals_whose={"all": "for everybody here", "one": "for `{person}`"},
    approvals_more="… and {count} older ones. /approvals clear takes yours back.",
    approvals_taken_back="{count} approval(s) taken back: I ask again.",
    button_take_back="Take back",
    reminder="⏰ {text}",
    reminder_for=" ({name})",
    reminder_late="This was due at {time}.",
    timezone={
        "shown": (
            "Times in this chat are those of {zone}, where it is {time}. "
            "`/timezone Europe/Berlin` changes that, `/timezone default` takes the change back."
        ),
        "changed": "From now on times in this chat are those of {zone}, where it is {time}. What is scheduled stays.",
        "unknown": "I know no time zone {name}. It is written like `/timezone {near}`.",
    },
    reminders_head="**Scheduled in this chat:**",
    reminders_none="Nothing is scheduled in this chat. Ask me, such as: remind me tomorrow at 9 to call Ann.",
    reminders_line="{number}. {text} — {time}{again}{whose}",
    reminders_again=", repeats: `{cron}`",
    reminders_more="… and {count} later ones.",
    reminder_answers={
        "cancelled": "Cancelled.",
        "not_yours": "Only the person who made it, or an administrator, can cancel this.",
    },
    button_cancel_reminder="Cancel: {text}",
    schedule_revoked_admin="A reminder or task that `{person}` had scheduled was due, but they may not use me there any more. It is cancelled.",
    unknown_sender=(
        "I answer only people I was told to. Your id is `{person}`; "
        "an administrator can let you in with `antler access allow {person}`."
    ),
    unclaimed=(
        "I have no administrator yet. If I am yours, send me the claim code that `antler run` printed when it started. "
        "(`antler pair --claim` prints a new one.)"
    ),
    pairing_code=(
        "We have not met yet. Here is your code, good for {life}:\n\n`{code}`\n\n"
        "Give it to an administrator, who sends me `/pair {code}` or runs `antler pair {code}`."
    ),
    pairing_over="This code is no longer valid. Write to me again for a new one.",
    pairing_used="✅ This code was used.",
    welcome="👋 An administrator let you in. Just write what you need; /help shows what else I can do.",
    claimed=(
        "🔑 You are my administrator now. What comes next:\n\n"
        "1. Write me something: I answer right here.\n"
        "2. Let others in: a person who writes to me gets a code; when they give it to you, type `/pair CODE`.\n"
        "3. Bring me into a group: add me, and type /allow there.\n\n"
        "/help lists everything."
    ),
    access_revoked="An administrator has taken back your access, so I do not answer any more.",
    code_refused="This code is not valid: it may be mistyped, used already or out of time.",
    code_limit="Too many wrong codes: I look at none for the next ten minutes.",
    code_in_group="Codes belong in a private chat with me. One that is written here is void.",
    group_unknown="I may not talk here yet. An administrator can let me: /allow",
    outages={
        "no_connection": "⚠️ The account `{name}` has had no connection for {age}{why}. It goes on trying.",
        "stopped": (
            "⚠️ The account `{name}` has stopped:\n\n{detail}\n\n"
            "The others go on. A change of its settings in the config needs a restart of antler."
        ),
        "sending_stopped": "⚠️ The account `{name}` cannot send anything, so nobody gets an answer there{why}.",
        "late": "⚠️ On the account `{name}` an answer has been waiting to be sent for {age}{why}.",
        "model_auth": (
            "⚠️ The provider refuses the API key of the model `{name}`: no answer can be had from it until `api_key` is "
            "corrected in the config."
        ),
        "model_quota": "⚠️ The account for the model `{name}` has no credit left: no answer can be had from it.",
        "model_unknown": (
            "⚠️ The provider does not know the model `{name}`: `model` or `base_url` in the config is wrong, or the model "
            "is no longer offered."
        ),
        "model_failing": "⚠️ The model `{name}` does not answer{why}.",
        "store_unavailable": (
            "⚠️ The database cannot be written{why}. What was accepted waits; new messages are not taken until it can."
        ),
        "store_slow": "⚠️ The database has been busy with one write for {age}.",
        "disk_low": "⚠️ The disk that holds `data_dir` is almost full{why}.",
    },
    outages_over={
        "receiving": "✅ The account `{name}` is connected again, after {age}.",
        "sending": "✅ The account `{name}` sends again, after {age}.",
        "model": "✅ The model `{name}` answers again, after {age}.",
        "store": "✅ The database can be written again, after {age}.",
        "disk": "✅ The disk that holds `data_dir` has room again, after {age}.",
    },
    pair_usage="Type the code that the person got from me: `/pair ABCD-EFGH-JKLM`.",
    paired="✅ `{name}` (`{person}`) may talk to me now and has been told. To take it back: `/access revoke {person}`.",
    group_asked_admin=(
        "`{name}` (`{person}`) spoke to me in a group that nobody has let me into: `{title}`.\n\n"
        "To let me talk there, type /allow in the group, or run `antler access allow {group}`. Else I stay silent."
    ),
    group_joined_admin=(
        "`{name}` (`{person}`) added me to a group: `{title}`.\n\n"
        "To let me talk there, type /allow in the group, or run `antler access allow {group}`. Else I stay silent."
    ),
    group_ask={
        "any": (
            "Shall I talk in this group (`{group}`)? Then **everybody** in it, now and later, can put me to work, "
            "and the model reads what is said here when I am asked."
        ),
        "listed": (
            "Shall I talk in this group (`{group}`)? Then those in it **who have access themselves** can put me to "
            "work, and the model reads what they say here when I am asked."
        ),
    },
    group_allow="Allow",
    group_cancel="Cancel",
    group_opened={
        "any": "✅ I talk here now: everybody can mention me or reply to me. /disallow closes the group again.",
        "listed": "✅ I talk here now, with those who have access themselves. /disallow closes the group again.",
    },
    group_cancelled="Nothing has changed: I stay silent here.",
    group_is_open="I talk here already. /disallow closes the group.",
    group_closed="🔒 I do not answer here any more. /allow opens the group again.",
    allow_where=(
        "/allow and /disallow are typed in a group. By id it goes here: `/access allow ID` and `/access revoke ID`."
    ),
    access_in_private="That belongs into a private chat with me.",
    access_other_account="Here only ids of `{account}` can be changed; for others use their chat, or `antler access`.",
    access_head="**Who has access**",
    access_more="- … and {count} more: `antler access list`",
    access_hint="Change it with `/access allow ID` and `/access revoke ID`.",
    access_allowed="✅ `{subject}` has access now.",
    access_taken="🔒 `{subject}` has no access any more; what I was doing for it is stopped.",
    access_state={
        "pending": "waits with a code",
        "paired": "paired",
        "allowed": "allowed",
        "admin": "administrator",
        "blocked": "shut out",
    },
    access_problem={
        "no_id": "{subject} {detail}.",
        "no_account": "{subject} belongs to none of my accounts ({detail}).",
        "operator": "{subject}: people at the terminal need no access.",
        "no_person": "{subject} is a group, and only a person can be an administrator.",
        "in_already": "{subject} has access already.",
        "in_config_already": "{subject} has access already, by `{detail}` in the config.",
        "in_config": "{subject} is in `{detail}` of the config: take it out there; that holds within seconds.",
        "out_already": "{subject} is shut out already.",
        "yourself": "{subject} is you. Another administrator can do that, or `antler access` on my machine.",
    },
    not_yours="Only the one who asked can decide this.",
    refusals={
        "busy": (
            "⚠️ {count} message(s) not taken: an answer is still being made here. "
            "Send again when it is there, or /stop it first."
        ),
        "queue_full": (
            "⚠️ {count} message(s) not taken: {limit} are already waiting here. "
            "Wait for the answers, /stop the current one, or drop some with /queue."
        ),
        "all_full": (
            "⚠️ {count} message(s) not taken: in all chats together {limit} are already waiting. "
            "Please send again in a few minutes."
        ),
    },
    too_fast=(
        "⚠️ That was too fast: I take {limit} messages a minute from one person, and some were not taken. "
        "Please wait a moment, then send them again."
    ),
    cannot_read={
        "sticker": "I cannot see this sticker. Please tell me in words, or send a picture.",
        "story": "I cannot open stories. Please tell me in words, or send the picture or video itself.",
        "game": "I cannot play games. Please tell me in words what you would like.",
        "invoice": "I cannot read invoices of this kind. Please send the text or a file.",
        "checklist": "I cannot read checklists. Please send the items as text.",
        "giveaway": "I cannot read giveaways. Please tell me in words what you would like.",
        "paid_media": "I cannot see paid media. Please send the picture or video itself.",
        "shared_group": "I cannot look into a shared group. Please tell me in words what you would like.",
        "shared_contact": "I cannot read shared contacts. Please send the name as text.",
        "task": "I cannot read shared tasks. Please send the task as text.",
        "poll": "I cannot read this poll. Please send it as text.",
        "red_packet": "I cannot open red packets. Please tell me in words what you would like.",
        "folder": "I cannot open folders. Please send the files one by one.",
        "event": "I cannot read shared calendar events. Please send the date and the subject as text.",
        "video_call": "I cannot join video calls. Please write to me here.",
    },
    not_allowed="Only administrators may do that here.",
    command_menu={
        "new": "Start a new thread: /new [title]",
        "stop": "Stop the current answer",
        "retry": "Answer the last message again",
        "undo": "Forget the last exchange",
        "threads": "Threads of this conversation; /threads NUMBER goes back to one, /threads delete NUMBER deletes it",
        "compact": "Make a summary of what is older in this thread",
        "usage": "Tokens and costs of this chat",
        "queue": "What runs and what waits; /queue clear drops yours",
        "timezone": "The time zone of this chat: /timezone Europe/Berlin",
        "reminders": "What is scheduled in this chat, and cancel it",
        "approvals": "What is allowed here without asking; /approvals clear takes yours back",
        "status": "Connection, model, thread and queue",
        "models": "List the models, or switch: /models [name]",
        "agent": "List the agents, or switch: /agent [name]",
        "skills": "Skills; /skills off NAME, /skills on NAME; /NAME REQUEST uses one at once",
        "memory": "What I remember: show, search, forget, edit, add, export, off, on",
        "forget": "/forget me deletes what I keep of you",
        "whoami": "Your id, for the config",
        "help": "What I can do",
    },
    admin_menu={
        "pair": "Let a person in: /pair CODE",
        "allow": "In a group: let me talk there",
        "disallow": "In a group: keep me silent again",
        "access": "Who has access; /access allow ID, /access revoke ID",
    },
    help_intro="Write to me and I answer. In groups, mention me or reply to one of my messages. Commands:",
    help_admin="For administrators:",
    help_line="- `/{command}` — {description}",
    unknown_command="I do not know the command {command}.",
    did_you_mean=" Did you mean {suggestion}?",
    see_help=" /help lists them all.",
    which_thread=(
        "In this channel each thread is a conversation of its own, and I cannot see which one you mean. Nothing was "
        "changed. Write it in that thread: `/{command}`"
    ),
    new_thread="🆕 A new thread. I no longer see what was said before.",
    new_thread_titled="🆕 A new thread: **{title}**. I no longer see what was said before.",
    new_stopped_run=" The running answer was stopped.",
    new_dropped=" {count} waiting message(s) were dropped.",
    dropped_by_new="⏹ Not answered: a new thread was started before its turn.",
    dropped_by_revoke="⏹ Not answered: an administrator has taken back the access.",
    stop_nothing="Nothing is running here.",
    stop_not_yours="Only the person who asked, or an administrator, can stop this answer.",
    retry_nothing="There is nothing to answer again in this thread.",
    retry_busy="Something is still being answered here. /stop it first, or wait for its end.",
    retry_not_yours="Only the person who asked, or an administrator, can have this answered again.",
    retry_not_newest="Only the newest answer can be tried again.",
    retry_lost="The last exchange could not be taken back, so I did not answer it again. Please ask again.",
    undo={
        "done": "↩️ I have forgotten the last exchange (`{text}`). What was done stays: files are still there.",
        "nothing": "There is nothing to take back in this thread.",
        "busy": "Something is still being answered here. /stop it first, or wait for its end.",
        "not_yours": "Only the person who asked, or an administrator, can take this exchange back.",
        "lost": "The last exchange cannot be taken back any more: what was before it is no longer kept.",
    },
    compact={
        "done": "🗜 {count} older message(s) of this thread are a summary now; I no longer see them word for word.",
        "nothing": "There is nothing to shorten in this thread yet.",
        "failed": "⚠️ The thread could not be shortened, because the model is not to be had. Nothing has changed.",
    },
    threads={
        "head": "**Threads of this conversation**",
        "line": "{number}. `{title}` — {date}{messages}",
        "messages": ", {count} message(s)",
        "here": " ← now",
        "hint": "Go back to one with its button or `/threads NUMBER`; `/threads delete NUMBER` deletes one; /new starts another.",
        "resumed": "🧵 We go on in `{title}`.",
        "unknown": "There is no thread of that number. /threads lists them.",
        "busy": "Something is still being answered here. /stop it first, or wait for its end.",
    },
    forgetting={
        "usage": "`/forget me`, in a private chat with me, deletes what I keep of you. I show what that is and ask first.",
        "where": (
            "Write `/forget me` to me in a private chat: there I show what will be deleted, and ask. It also covers "
            "what you said in groups."
        ),
        "ask": (
            "**Shall I delete everything that I keep of you?** This cannot be undone.\n\n"
            "What goes:\n"
            "- what I remember about you, and your own skills\n"
            "- all threads of our private chats, with their history and files\n"
            "- the texts of your messages and of my answers that I still store, in groups too\n"
            "- what groups remember by your word\n"
            "- your reminders, and what you allowed me without asking\n\n"
            "What stays:\n"
            "- your access, so that you can go on writing (an administrator takes it away with `/access revoke`)\n"
            "- numbers without words: how much was used\n"
            "- the audit log of commands that were run\n"
            "- what the platform itself keeps of this chat\n\n"
            "In groups, a thread that goes on still knows what you said there, and keeps its files, until somebody "
            "types /new."
        ),
        "ask_thread": (
            "**Shall I delete the thread `{title}`?** Its history and its files go for good. What I remember of it "
            "beyond the thread stays (/memory)."
        ),
        "button_delete": "Delete",
        "button_cancel": "Cancel",
        "kept": "Nothing was deleted.",
        "dropped": "⏹ Not answered: what it belongs to is being deleted.",
        "under_way": "🗑 I am deleting it…",
        "again": "🗑 Not everything could be deleted yet. I go on trying and tell you here when it is done.",
        "thread_done": "🗑 The thread is deleted, with its history and its files.",
        "done": "🗑 **I have forgotten you.** Deleted were:",
        "nothing": "🗑 **I have forgotten you.** There was nothing of yours left to delete.",
        "count_threads": "- {count} thread(s) with their history and files",
        "count_messages": "- the texts of {count} message(s)",
        "count_reminders": "- {count} reminder(s)",
        "count_facts": "- {count} thing(s) that I remembered",
        "stays": (
            "Your access, numbers without words, and the audit log stay. A group's running thread knows what you said "
            "there until somebody types /new in it."
        ),
    },
    usage={
        "title": "**What was used**",
        "tokens": "tokens",
        "cached": "cached",
        "cost": "cost",
        "day": "day",
        "running": "so far",
        "last": "last answer",
        "thread": "this thread",
        "today": "chat today",
        "chat": "chat in all",
        "all_today": "all today",
        "all": "all in all",
        "budget": "{percent} % of {budget} is used: {spent} of {limit} (`{key}`)",
        "chart": "The picture shows the tokens of each day; the lighter part came from the provider's cache.",
    },
    queue_nothing="Nothing runs and nothing waits here.",
    queue_running="**Now:** `{text}` (`{name}`, for {age})",
    queue_head="**Waiting:**",
    queue_line="{number}. `{text}` (`{name}`, for {age})",
    queue_more="… and {count} more",
    queue_arriving="{count} more still arriving",
    queue_hint="/queue clear drops what waits of yours.",
    queue_cleared="{count} waiting message(s) dropped.",
    queue_none_yours="Nothing of yours waits here.",
    models={
        "head": "**Models**",
        "line": "- `{name}`{detail}",
        "current": " ← this conversation",
        "hint": "Switch with `/models name`.",
        "switched": "This conversation now uses `{name}`.",
        "unknown": "There is no model `{name}`. Known: {known}.",
    },
    agents={
        "head": "**Agents**",
        "line": "- `{name}`{detail}",
        "current": " ← this conversation",
        "hint": "Switch with `/agent name`.",
        "switched": "Here answers now `{name}`.",
        "unknown": "There is no agent `{name}`. Known: {known}.",
    },
    models_thinks=" · thinks first",
    skills={
        "head": "**Skills** ({count} on)",
        "line": "- `{name}` — {detail}{place}",
        "line_off": "- `{name}` — off in this conversation",
        "line_disabled": "- `{name}` — off for everybody, by the config",
        "line_waiting": "- `{name}` — waits for an administrator",
        "waiting_ask": "`{name}` is off until an administrator agrees to what it holds:\n{reasons}\nTo turn it on exactly as it is: `/skills on {name} {digest}`",
        "waiting_not_yours": "An administrator has to turn `{name}` on.",
        "turned_on": "`{name}` is on, as it is now. Should it change, it waits again.",
        "mark": " · {place}",
        "none": "There are no skills here.",
        "none_at_all": "Skills are turned off in the config.",
        "no_sandbox": "There are no skills here: I read them in my sandbox, and there is none. /status says why.",
        "hint": "`/name request` uses one at once; I also choose them by myself. `/skills name` tells more, `/skills off name` and `/skills on name` switch one in this conversation.",
        "problems": "⚠️ Not right:",
        "more": "… and {count} more",
        "switched_on": "On again in this conversation: {names}.",
        "switched_off": "Off in this conversation: {names}.",
        "unknown": "There is no skill `{name}` here.",
        "disabled": "`{name}` is turned off for everybody, by `skills.disabled` in the config.",
        "place": "From: {place}",
        "public": "Antler",
        "custom": "this installation",
        "mine": "this chat's own",
        "state": "Here: {state}",
        "on": "on",
        "off": "off",
        "disabled_state": "off for everybody, by the config",
        "version": "Version: {version}",
        "author": "Author: {author}",
        "license": "License: {license}",
        "tools": "Tools while it is followed: {tools}",
    },
    memory={
        "head": "**What I remember about you**",
        "head_group": "**What I remember of this group**",
        "empty": "I remember nothing about you yet. I learn from what you tell me, or with `/memory add TEXT`.",
        "empty_group": "I remember nothing of this group yet. I learn from what is said to me here.",
        "line": "{number}. {text}",
        "until": " (until {date})",
        "more": "… and {count} more: `/memory search WORDS` finds them, `/memory export` has all.",
        "hint": (
            "`/memory forget NUMBER` · `/memory edit NUMBER TEXT` · `/memory add TEXT` · `/memory search WORDS` · "
            "`/memory export` · `/memory off` · `/memory forget all`"
        ),
        "is_off": "It is off: I learn nothing new and do not use it. `/memory on` turns it on.",
        "found": "**What I remember of {words}**",
        "found_none": "I remember nothing of {words}.",
        "usage": (
            "`/memory` shows what I remember. `/memory search WORDS`, `/memory forget NUMBER` (or several), "
            "`/memory forget all`, `/memory edit NUMBER TEXT`, `/memory add TEXT`, `/memory export`, `/memory off`, "
            "`/memory on`."
        ),
        "unknown_number": "There is no number {number} in the list. `/memory` shows it.",
        "gone": "That is forgotten already. `/memory` shows what is left.",
        "forgotten": (
            "Forgotten: {numbers}. What was said just before and I had not learnt from yet is not learnt any more either."
        ),
        "ask_all": "Forget everything that I remember about you (facts: {count}, and the summaries)?",
        "ask_all_group": "Forget everything that I remember of this group (facts: {count}, and the summaries)?",
        "button_forget": "Forget everything",
        "button_keep": "Keep it",
        "all_gone": (
            "Everything is forgotten (facts: {count}), and what was still to be learnt. This thread goes on as it was; "
            "`/new` begins one that knows nothing of it."
        ),
        "stays": "Everything stays as it was.",
        "edited": "Number {number} says now: {text}",
        "added": "I remember: {text}",
        "secret": "That looks like a password, a key or another secret. Those are never remembered.",
        "not_kept": "I cannot remember that: it is too long or empty, reads like an order to me, or the memory is full.",
        "off": (
            "Memory is off here: from now on I learn nothing, and I do not use what I know. That stays; "
            "`/memory forget all` deletes it, `/memory on` turns it on again."
        ),
        "on": "Memory is on here.",
        "add_while_off": "Memory is off here. `/memory on` turns it on.",
        "exported": "What I remember, to read (Markdown) and for programs (JSON).",
        "disabled": "Memory is switched off by the operator: nothing is remembered beyond a thread.",
        "disabled_group": "Groups have no memory here: nothing is remembered beyond a thread.",
        "unavailable": "⚠️ I cannot get at the memory right now. Nothing was changed; please try again later.",
    },
    memory_category={
        "preference": "Preferences",
        "knowledge": "Knowledge",
        "context": "Circumstances",
        "behavior": "Habits",
        "goal": "Goals",
        "correction": "Corrections",
    },
    memory_summary={
        "user.workContext": "Work",
        "user.personalContext": "Personal",
        "user.topOfMind": "These days",
        "history.recentMonths": "The last months",
        "history.earlierContext": "Before that",
        "history.longTermBackground": "Background",
    },
    whoami="You are `{person}`\nThis conversation is `{conversation}`",
    whoami_group="\nThis chat is `{chat}` (for `access.groups.allow`)",
    goes_on_below="Continues below",
    takes_a_while="⏳ Still working. The answer follows below.",
    button_expired="This button is no longer valid.",
    button_run_now="Run now",
    button_drop="Drop",
    button_retry="Try again",
    pressed={
        "now": "It is the next.",
        "drop": "Dropped.",
        "retry": "Trying again.",
        "over": "That is over already.",
        "begun": "It is being answered already.",
        "not_yours": "Only the person who wrote it, or an administrator, may do that.",
        "not_yours_to_stop": "Another person's answer is being made. Only they, or an administrator, can stop it.",
    },
    status={
        "title": "**Antler {version}**, up {uptime}",
        "connection": "Connection: {state}, last sign of life {age} ago",
        "connection_never": "Connection: {state}, no sign of life yet",
        "detail": "  {detail}",
        "agent": "Agent: {agent}",
        "model": "Model: `{model}`",
        "thread": "Thread: {title}{tokens}",
        "untitled": "untitled",
        "tokens": " · {input} tokens read, {output} written",
        "running": "Running: for {age}, {step}",
        "idle": "Running: nothing",
        "queue": "Waiting: {count}",
        "step": "model call {calls}",
        "starting": "starting",
        "others": "Other connections: {states}",
        "not_sending": "Sending: does not work at the moment, answers wait",
        "model_down": "Model: `{model}`, which cannot answer at the moment",
        "connected": "connected",
        "connecting": "connecting",
        "retrying": "reconnecting",
        "stopped": "stopped",
        "sandbox": "Sandbox: {provider}, {state}",
        "servers": "Servers with tools ({tools} tools): {states}",
    },
    server_state={
        "connecting": "connecting",
        "ready": "connected",
        "retrying": "not reachable",
        "off": "switched off",
    },
    sandbox_state={
        "starting": "still starting",
        "off": "so I have no files and run no commands",
        "failed": "which does not work here: I have no files and run no commands",
        "files": "which does not work here: I have files, but run no commands",
        "none": "commands are not isolated",
        "restricted": "commands are held, restricted",
        "full": "commands run isolated",
    },
    second="{n} s",
    minute="{n} min",
    hour="{n} h",
    day="{n} d",
)
