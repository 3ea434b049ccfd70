"""English."""

from __future__ import annotations

from bot.texts.catalogue import Texts
from harness.events import FailureKind

EN = Texts(
    working="Working…",
    plan_marks={"pending": "☐", "in_progress": "▶", "completed": "☑"},
    done={
        "head": "What I did",
        "times": "{what} ({count} times)",
        "more": "… and {count} more",
        "ok": "✓ {what}",
        "failed": "✗ {what}",
    },
    plan_step="📋 {number}/{count} {step}",
    tool_labels={
        "bash": "Running a command",
        "ls": "Looking through the files",
        "glob": "Looking for files",
        "grep": "Searching the files",
        "read_file": "Reading {what}",
        "write_file": "Writing {what}",
        "str_replace": "Changing {what}",
        "present_files": "Handing over {what}",
        "view_image": "Looking at {what}",
        "web_search": "Searching: {what}",
        "web_fetch": "Reading {what}",
        "knowledge_search": "Looking up: {what}",
        "make_image": "Painting a picture",
        "invoke_acp_agent": "Working with {what}",
        "speak": "Recording",
        "write_todos": "Planning",
        "research_record": "Looking into the research",
        "ask_clarification": "Asking",
        "schedule": "Scheduling",
        "remember": "Remembering",
        "recall": "Looking into the memory",
        "skill_manage": "Working on a skill",
        "tool_search": "Looking for tools",
        "task": "Delegating: {what}",
        "skill": "Reading the skill {what}",
        "other": "Using {what}",
    },
    tasks={
        "one": "1 task: ",
        "many": "{count} tasks: ",
        "done": "{count} done",
        "failed": "{count} failed",
        "running": "{count} running: {tasks}",
        "waiting": "{count} waiting: {tasks}",
        "age": "{task} ({age})",
        "waits": "{task}: {why}",
        "and": ", ",
    },
    retrying="{trouble}, trying again in {seconds} s…",
    retrying_for="{trouble}, still trying after {age}…",
    troubles={
        FailureKind.RATE_LIMITED: "The model is busy",
        FailureKind.OVERLOADED: "The model is busy",
        FailureKind.TIMEOUT: "The model is not answering",
        FailureKind.CONNECTION: "There is no connection to the model",
        FailureKind.CUT: "The answer broke off",
        FailureKind.UNAVAILABLE: "The model has a problem",
        FailureKind.EMPTY: "The model gave an empty answer",
        FailureKind.BAD_RESPONSE: "The model sent something unreadable",
    },
    thinking="💭 {line}",
    thinking_for="Thinking, {age}",
    standing="{status} ({age})",
    condensing="Condensing the older part of this conversation…",
    resumed="Resumed after a restart…",
    paused="Paused for a restart; I will continue right after it…",
    held="Antler stopped unexpectedly more than once while working on this; I will continue once it has run steadily for a while…",
    no_slot="Waiting for a free slot: {limit} answers are in progress, which is the limit…",
    queued_next="Queued, next in line",
    queued="Queued, {place} in line",
    queued_together=": {count} messages, answered together",
    steering="↪ Will be added to the current answer at its next step",
    steered="↪ Added to the current answer.",
    ordinals={"1": "{n}st", "2": "{n}nd", "3": "{n}rd", "": "{n}th"},
    stopped_by={
        "stopped": "⏹ Stopped.",
        "new_thread": "⏹ Stopped, because a new thread was started.",
        "new_message": "⏹ Stopped, because you wrote something new.",
        "admin_message": "⏹ Stopped, because an administrator wrote something new.",
        "rollback": "⏹ Stopped, because you wrote something new.",
        "admin_rollback": "⏹ Stopped, because an administrator wrote something new.",
        "run_now": "⏹ Stopped, because another message was moved ahead.",
        "revoked": "⏹ Stopped: an administrator has revoked access.",
        "forgotten": "⏹ Stopped: its thread is being deleted.",
    },
    forgotten=" I have forgotten this exchange.",
    not_forgotten=" I could not forget this exchange; an administrator can see why in the log.",
    dropped_by={
        "author": "⏹ Dropped.",
        "admin": "⏹ Dropped by an administrator.",
    },
    timed_out="⌛ Stopped after {duration}, the time limit for one answer. Ask for a smaller step, or try again.",
    gave_up=(
        "⚠️ I could not answer this message: Antler stopped unexpectedly {deaths} times while working on it. "
        "Try again, or rephrase it; an administrator can see why in the log."
    ),
    gave_up_admin="⚠️ I gave up on run `{run}` in `{conversation}`: Antler stopped unexpectedly three times while working on it. The log says why.",
    lost_draft="⚠️ This answer was interrupted and cannot be continued. Please ask again.",
    failures={
        FailureKind.AUTH: "⚠️ The model {model} cannot be used right now, and only an administrator can change that. You can choose another one with /models.",
        FailureKind.QUOTA: "⚠️ The credit for the model {model} is used up, and only an administrator can top it up. You can choose another one with /models.",
        FailureKind.NOT_FOUND: "⚠️ The model {model} is not available. Choose another one with /models.",
        FailureKind.RATE_LIMITED: "⚠️ The model {model} is too busy at the moment.{wait} With /models you can choose another one.",
        FailureKind.OVERLOADED: "⚠️ The model {model} is too busy at the moment.{wait} With /models you can choose another one.",
        FailureKind.CONTEXT_LENGTH: "⚠️ That is more text than the model {model} can read at once. Send less, or start a new thread with /new.",
        FailureKind.CONTENT_FILTER: "⚠️ The provider's content filter refused this request. Please rephrase it.",
        FailureKind.TIMEOUT: "⚠️ The model {model} did not answer in time. Please try again.",
        FailureKind.CONNECTION: "⚠️ There is no connection to the model {model}. Try again in a few minutes, or choose another one with /models.",
        FailureKind.CUT: "⚠️ The answer of the model {model} broke off, even when asked again. Please try again.",
        FailureKind.UNAVAILABLE: "⚠️ The model {model} has a problem on its provider's side. Try again in a few minutes, or choose another one with /models.",
        FailureKind.EMPTY: "⚠️ The model {model} gave an empty answer, even when asked again. Please rephrase your message.",
        FailureKind.BAD_RESPONSE: "⚠️ The model {model} sent something unreadable. Please try again.",
        FailureKind.BAD_REQUEST: "⚠️ The model {model} did not accept the request. Try /new, or another model with /models. If it happens again, tell an administrator.",
        FailureKind.BUDGET: "⚠️ The budget was used up before there was an answer. /usage shows the budgets.",
        FailureKind.INTERNAL: "⚠️ Something went wrong on my side. Please try again. If it happens again, tell an administrator.",
    },
    retry_in=" Try again in {duration}.",
    platform_refused={
        "answer": "⚠️ This platform refused my answer, so I cannot show it here. Ask me to rephrase or shorten it.",
        "part": "⚠️ This platform refused part of this answer, so it is missing above. Ask me to rephrase that part.",
        "topic": "⚠️ I could not post an answer in one of the topics here: it is closed or locked, or I am not allowed to write in it. Reopen it, or ask me outside it.",
        "buttons": "Reply with a number.",
    },
    partial="The text above is unfinished.",
    cut_short="⚠️ This answer was cut off: the model reached its length limit. Ask me to continue.",
    budget_of={
        "run": "the budget for one answer",
        "conversation_day": "today's budget for this chat",
        "speaker_day": "your budget for today",
        "gateway_day": "today's budget for all chats",
    },
    budgets={
        "refused": "⚠️ Not answered: {budget} is used up.",
        "stopped": "⚠️ I stopped here because {budget} is used up, so this answer may be incomplete.",
        "warning": "ℹ️ {percent}% of {budget} is used up.",
        "resets": " It resets in {duration}, at midnight ({zone}).",
    },
    looped="⚠️ I was about to do the same thing for the {count}th time, so I stopped; this answer may be incomplete. Tell me how to continue.",
    calls_used_up="⚠️ I reached the limit of {limit} model calls for one answer, so it may be incomplete. Ask me to continue.",
    images_not_seen="ℹ️ The model {model} cannot see images; it was only told that you sent one. /models lists others.",
    fell_back="ℹ️ `{model}` answered, because `{instead_of}` could not.",
    file_problem={
        "too_large": "⚠️ {name} was not accepted: it is larger than {limit} MB. Please send a smaller file.",
        "too_large_there": "⚠️ {name} was not accepted: bots cannot download files of this size here. Please send a smaller file.",
        "gone": "⚠️ {name} could not be downloaded: it is no longer there. Please send it again.",
        "quota": "⚠️ {name} was not accepted: the files of this thread already take up {limit} MB. /new starts an empty thread.",
        "message_quota": (
            "⚠️ {name} was not accepted: the files of one message can add up to {limit} MB at most. Please send it separately."
        ),
        "person_quota": "⚠️ {name} was not accepted: you have already sent {limit} MB within a day. Please try again tomorrow.",
        "not_allowed": "⚠️ {name} could not be downloaded: I have no right to read files here. The log tells my operator which one is missing.",
        "no_room": "⚠️ {name} was not accepted: my disk has no room for it. My operator can make room; please send it again then.",
        "failed": "⚠️ {name} could not be downloaded. Please send it again.",
    },
    listening="Listening…",
    voice_problem={
        "off": "🎤 I cannot listen to voice messages here. Please type it instead.",
        "too_long": "🎤 I did not listen to the voice message: it is longer than {limit} min. Please send a shorter one, or type it.",
        "too_large": "🎤 I did not listen to the voice message: it is larger than {limit} MB. Please send a shorter one, or type it.",
        "gone": "🎤 I could not listen to the voice message: the file is no longer there. Please send it again.",
        "format": (
            "🎤 I could not listen to the voice message: the transcription service did not accept the recording. "
            "Please type it."
        ),
        "key": (
            "🎤 I could not listen to the voice message: the transcription service refused the API key. "
            "An administrator needs to correct the key in the config."
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
            "🎤 I could not listen to the voice message: the transcription service is not accepting more requests right now. "
            "Please try again in a minute, or type it."
        ),
        "timeout": (
            "🎤 I could not listen to the voice message: the transcription service did not answer in time. "
            "Please send it again, or type it."
        ),
        "unavailable": (
            "🎤 I could not listen to the voice message: the transcription service cannot be reached. "
            "Please try again later, or type it."
        ),
        "garbage": (
            "🎤 I could not listen to the voice message: the transcription service sent something unreadable. "
            "Please send it again, or type it."
        ),
        "silent": "🎤 I heard no words in the voice message. Please record it again, or type it.",
        "failed": (
            "🎤 I could not listen to the voice message. Please send it again, or type it; an administrator can find the "
            "details in the log."
        ),
    },
    file_not_sent={
        "too_large": "⚠️ {name} ({size} MiB) was not sent: this platform accepts files of at most {limit} MiB from a bot.",
        "too_small": "⚠️ {name} was not sent: it is empty, or too small for this platform.",
        "no_files": "⚠️ {name} was not sent: no files can be sent here.",
        "refused": "⚠️ {name} was not sent: this platform did not accept it.",
    },
    approval_asks="🔐 **I need a decision before I continue.** For `{name}`, I want to call `{tool}` with:",
    approval_why="Why I ask: {reason}",
    approval_reasons={
        reason: reason
        for reason in (
            "It is an order.",
            "The command cannot be read for sure, so no rule can decide on it.",
            "Commands are not isolated on this machine.",
            "Its server says that it may change or delete things.",
            "It would change what I do in later conversations.",
            "This would act beyond this answer, and it may come from something that was read, not from you.",
        )
    },
    approval_terms=(
        "“For this chat” covers {coverage}. Only `{name}` or an administrator can decide. "
        "If nobody decides within {duration}, it is denied. (`{hash}`)"
    ),
    approval_exact_terms={
        "once": "Approval covers exactly this. Only `{name}` or an administrator can decide. "
        "If nobody decides within {duration}, it is denied. (`{hash}`)",
        "admins": "Approval covers exactly this, for everybody here, so only an administrator can allow it. "
        "If nobody decides within {duration}, it is denied. (`{hash}`)",
    },
    approval_coverage={"call": "exactly this call", "tool": "`{tool}` with any arguments"},
    approval_awaits_reason="✍️ **Denied once you have said why**, or when you press Deny.",
    approval_write_why=(
        "✍️ Why not? Reply to this message. (What you write to me in the next 2 minutes counts too, if it reads like a "
        "reason. Anything else is a new request.)"
    ),
    approval_decided={
        "once": "✅ **Allowed once:** `{tool}`",
        "chat": "✅ **Allowed for this chat:** `{tool}`",
        "deny": "⛔ **Denied:** `{tool}`",
        "expired": "⌛ **Denied, because nobody decided in time:** `{tool}`",
        "stopped": "⏹ **Not done, because the answer was stopped first:** `{tool}`",
    },
    approval_reason="Reason: {reason}",
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
        "why": "Tell me why not.",
        "stop": "Stopped.",
        "not_yours": "Only the person who asked, or an administrator, can decide this.",
        "admins": "Only an administrator can allow this.",
        "taken_back": "Withdrawn. I will ask again.",
        "over": "This is already over.",
    },
    approval_over={
        "once": "Already allowed once, by {by}.",
        "chat": "Already allowed for this chat, by {by}.",
        "deny": "Already denied, by {by}.",
        "expired": "Already denied, because nobody decided in time.",
        "stopped": "Not done: the answer was stopped first.",
    },
    approval_by={"you": "you", "person": "{name}", "admin": "an administrator"},
    waiting_for_decision="Waiting for a decision",
    queued_behind_approval="Queued. First I need your decision: {tool} {about}",
    see_approvals=" · /approvals shows it again",
    queued_behind_too=" · more messages waiting: {count}",
    approval_in_words="Without buttons: `/approvals once {hash}` or `/approvals deny {hash}`.",
    approvals_head="**Allowed in this chat without asking:**",
    approvals_none="Nothing extra is allowed in this chat: I ask before anything that the rules do not allow by themselves.",
    approvals_line="{number}. `{tool}`{covered}, {whose}",
    approvals_whose={"all": "for everybody here", "one": "for `{person}`"},
    approvals_more="… and {count} older ones. /approvals clear withdraws yours.",
    approvals_taken_back="{count} approval(s) withdrawn. I will ask again.",
    button_take_back="Withdraw",
    reminder="⏰ {text}",
    reminder_for=" ({name})",
    reminder_late="This was due at {time}.",
    hooked="🔔 **{name}** {line}",
    read_by_admins="ℹ️ Administrators of this gateway can read what is written here.",
    timezone={
        "shown": (
            "This chat uses the time zone {zone}, where it is now {time}. "
            "Change it with `/timezone Europe/Berlin`; `/timezone default` restores the default."
        ),
        "changed": "This chat now uses the time zone {zone}, where it is {time}. What is already scheduled stays as it is.",
        "unknown": "I do not know the time zone {name}. Write it like this: `/timezone {near}`.",
    },
    voice={
        "shown": "My answers in this chat {state}. Change it with `/voice on` or `/voice off`.",
        "changed": "From the next answer on, my answers in this chat {state}.",
        "unknown": "Use `/voice on`, `/voice off` or `/voice default`.",
        "on": "are spoken too",
        "off": "are not spoken",
        "none": "I cannot speak here: an operator has to configure `speech` first.",
        "speaking": "Recording the answer…",
        "rest": "The rest is in the text.",
        "failed": "🔈 This answer could not be spoken; an administrator can find the reason in the log.",
        "not_sent": "🔈 This chat does not take recordings.",
    },
    verbose={
        "shown": "How much of my work this chat shows: {state}. Change it with `/verbose off`, `/verbose short` or `/verbose full`.",
        "changed": "From the next answer on, this chat shows: {state}.",
        "unknown": "There is no such level. Use `/verbose off`, `/verbose short`, `/verbose full` or `/verbose default`.",
        "off": "nothing (off)",
        "short": "what I do, in a few words (short)",
        "full": "everything, with commands and paths (full)",
    },
    reminders_head="**Scheduled in this chat:**",
    reminders_none="Nothing is scheduled in this chat. Just ask me, for example: remind me tomorrow at 9 to call Ann.",
    reminders_line="{number}. {text} — {time}{again}{whose}",
    reminders_again=", repeats: `{cron}`",
    reminders_more="… and {count} later ones.",
    reminder_answers={
        "cancelled": "Cancelled.",
        "cancelled_one": "Cancelled: {text}",
        "unknown": "/reminders lists what is scheduled; `/reminders delete NUMBER` cancels what has that number there.",
        "not_yours": "Only the person who scheduled this, or an administrator, can cancel it.",
    },
    button_cancel_reminder="Cancel: {text}",
    schedule_revoked_admin="A reminder or task that `{person}` had scheduled was due, but they no longer have access to me there. I cancelled it.",
    unknown_sender=(
        "I only answer people on my list. Your id is `{person}`; "
        "an administrator can let you in with `antler access allow {person}`."
    ),
    unclaimed=(
        "I have no administrator yet. If I am yours, send me the claim code that `antler run` printed when it started. "
        "(`antler pair --claim` prints a new one.)"
    ),
    pairing_code=(
        "We have not met yet. Here is your code, valid for {life}:\n\n`{code}`\n\n"
        "An administrator can let you in without it, or with it: `/pair {code}` or `antler pair {code}`."
    ),
    pairing_over="This code is no longer valid. Send me another message to get a new one.",
    pairing_used="✅ This code has been used.",
    pairing_refused="An administrator did not let you in.",
    welcome="👋 An administrator let you in. Just write what you need; /help shows what else I can do.",
    started="👋 Hello! Just write what you need, in your own words. I can:\n\n{abilities}\n\n/help shows the commands.",
    abilities={
        "talk": "answer questions, write, translate and explain",
        "files": "read the files and pictures that you send me, and send files back",
        "commands": "calculate, evaluate data and make documents in a workspace of my own",
        "search": "search the web",
        "pages": "read web pages",
        "voice": "listen to voice messages",
        "pictures": "make pictures",
        "reminders": "remind you, or do something later: “Remind me tomorrow at 9”",
        "knowledge": "look things up in your own documents: /knowledge",
        "memory": "remember what matters to you: /memory shows it",
    },
    about={
        "description": "Hello! I am an assistant that answers questions and works on files for you. Just write what you need; "
        "/help shows the commands.\n\nI run on my operator's own machine, and answer only people whom an administrator has let in.",
        "summary": "An assistant on its operator's own machine. Write to it as you would to a colleague.",
        "greeting": "👋 Hello! I can help you.",
        "offer": "I answer questions and work on files. Just write what you need. I answer only people who were let in.",
        "outside": "I am not in this conversation, so I did nothing. Invite me with `/invite @{bot}`, or write to me directly.",
        "button_start": "What can you do?",
        "button_help": "Commands",
    },
    claimed=(
        "🔑 You are now my administrator. Next steps:\n\n"
        "1. Send me a message: I answer right here.\n"
        "2. Let others in: when somebody writes to me, I ask you about them here.\n"
        "3. Bring me into a group: add me, and send /allow there.\n\n"
        "/help lists everything."
    ),
    access_revoked="An administrator has revoked your access, so I can no longer answer you.",
    code_refused="This code is not valid: it may be mistyped, already used or expired. Check it, or ask for a new one.",
    code_limit="Too many wrong codes. Please wait ten minutes before you try again.",
    code_in_group="Codes belong in a private chat with me. A code that was sent here is void.",
    group_unknown="I am not allowed to talk here yet. An administrator can allow it: /allow",
    outages={
        "no_connection": "⚠️ The account `{name}` has been disconnected for {age}{why}. It keeps trying.",
        "stopped": (
            "⚠️ The account `{name}` has stopped:\n\n{detail}\n\n"
            "The other accounts keep running. Once its settings in the config are corrected, it connects again by itself."
        ),
        "sending_stopped": "⚠️ The account `{name}` cannot send anything, so nobody gets an answer there{why}.",
        "late": "⚠️ On the account `{name}`, an answer has been waiting to be sent for {age}{why}.",
        "model_auth": (
            "⚠️ The provider refuses the API key of the model `{name}`: it cannot answer until `api_key` is corrected in the "
            "config."
        ),
        "model_quota": "⚠️ The account for the model `{name}` has no credit left: it cannot answer until the account is topped up.",
        "model_unknown": (
            "⚠️ The provider does not know the model `{name}`: `model` or `base_url` in the config is wrong, or the model "
            "is no longer offered."
        ),
        "model_failing": "⚠️ The model `{name}` is not answering{why}.",
        "store_unavailable": (
            "⚠️ The database cannot be written to{why}. Accepted messages wait, and new ones are not accepted, until it can."
        ),
        "store_slow": "⚠️ The database has been busy with one write for {age}.",
        "disk_low": "⚠️ The disk that holds `data_dir` is almost full{why}.",
        "no_worker": "⚠️ No worker (`antler worker`) has been at work for {age}: what people ask waits.",
    },
    outages_over={
        "receiving": "✅ The account `{name}` is connected again, after {age}.",
        "sending": "✅ The account `{name}` can send again, after {age}.",
        "model": "✅ The model `{name}` is answering again, after {age}.",
        "store": "✅ The database can be written to again, after {age}.",
        "disk": "✅ The disk that holds `data_dir` has free space again, after {age}.",
        "workers": "✅ A worker is at work again, after {age}.",
    },
    pair_usage="Send the code that the person got from me: `/pair ABCD-EFGH-JKLM`.",
    paired="✅ `{name}` (`{person}`) can talk to me now and has been told. To undo this: `/access revoke {person}`.",
    pairing_asked_admin=(
        "🙋 `{name}` (`{person}`) wrote to me in private and asks to be let in. People choose their own names, so if in "
        "doubt ask them for their code: `/pair CODE`. The request is open for {life}."
    ),
    requests_many="More people are asking to be let in than I can tell you about one by one. /access shows who is waiting.",
    request_buttons={"person in": "Let in", "person out": "Refuse", "group in": "Allow", "group out": "Ignore"},
    request_answers={"in": "Let in: {name}", "out": "Refused: {name}"},
    request_over={
        "in": "✅ Let in by `{by}`: `{name}` (`{subject}`). To undo this: `/access revoke {subject}`.",
        "out": (
            "⛔ Refused by `{by}`: `{name}` (`{subject}`). I will not ask about it again for 30 days; "
            "`/access allow {subject}` still lets them in."
        ),
        "over": "⌛ No longer open: the request of `{name}` (`{subject}`). `/access allow {subject}` still lets them in.",
    },
    group_asked_admin=(
        "🙋 `{name}` (`{person}`) spoke to me in a group where I am not allowed to talk: `{title}`.\n\n"
        "To let me talk there, press Allow, send /allow in the group, or run `antler access allow {group}`. Otherwise I "
        "stay silent."
    ),
    group_joined_admin=(
        "🙋 `{name}` (`{person}`) added me to a group: `{title}`.\n\n"
        "To let me talk there, press Allow, send /allow in the group, or run `antler access allow {group}`. Otherwise I "
        "stay silent."
    ),
    group_ask={
        "any": (
            "May I talk in this group (`{group}`)? **Everybody** in it, now and later, will be able to use me, "
            "and the model will read what is said here when I am asked."
        ),
        "listed": (
            "May I talk in this group (`{group}`)? Members **who have access themselves** will be able to use me, "
            "and the model will read what they say here when I am asked."
        ),
    },
    group_allow="Allow",
    group_cancel="Cancel",
    group_opened={
        "any": "✅ I can talk here now: everybody can mention me or reply to me. /disallow closes the group again.",
        "listed": "✅ I can talk here now, with members who have access themselves. /disallow closes the group again.",
    },
    group_cancelled="Nothing has changed: I stay silent here.",
    group_is_open="I can already talk here. /disallow closes the group.",
    group_closed="🔒 I no longer answer here. /allow opens the group again.",
    allow_where=(
        "Send /allow and /disallow in a group. Here you can use ids: `/access allow ID` and `/access revoke ID`."
    ),
    access_in_private="Please do that in a private chat with me.",
    access_other_account="Only ids of `{account}` can be changed here; for others, use a chat of their account, or `antler access`.",
    access_head="**Who has access**",
    access_more="- … and {count} more: `antler access list`",
    access_hint="Change it with `/access allow ID` and `/access revoke ID`.",
    access_allowed="✅ `{subject}` now has access.",
    access_taken="🔒 `{subject}` no longer has access, and what I was doing there has been stopped.",
    access_state={
        "pending": "asks to be let in",
        "refused": "refused",
        "paired": "paired",
        "allowed": "allowed",
        "admin": "administrator",
        "blocked": "blocked",
    },
    access_problem={
        "no_id": "{subject} {detail}.",
        "no_account": "{subject} belongs to none of my accounts ({detail}).",
        "operator": "{subject}: people at the terminal need no access.",
        "no_person": "{subject} is a group, and only a person can be an administrator.",
        "in_already": "{subject} already has access.",
        "in_config_already": "{subject} already has access, through `{detail}` in the config.",
        "in_config": "{subject} is listed in `{detail}` of the config: remove it there; that takes effect within seconds.",
        "out_already": "{subject} is already blocked.",
        "yourself": "{subject} is you. Ask another administrator, or use `antler access` on my machine.",
        "program": "{subject} is a program: its token alone lets it in, and `antler token revoke` on my machine ends that.",
        "local": "{subject} is whoever can run `antler web` on my machine, which no list changes; signing out ends a session.",
    },
    not_yours="Only the person who asked can decide this.",
    refusals={
        "busy": (
            "⚠️ {count} message(s) not accepted: an answer is still in progress here. "
            "Send them again when it is done, or /stop it first."
        ),
        "queue_full": (
            "⚠️ {count} message(s) not accepted: {limit} are already waiting here. "
            "Wait for the answers, /stop the current one, or drop some with /queue."
        ),
        "all_full": (
            "⚠️ {count} message(s) not accepted: {limit} are already waiting in all chats together. "
            "Please send them again in a few minutes."
        ),
    },
    too_fast=(
        "⚠️ That was too fast: I accept {limit} messages a minute from one person, and some were not accepted. "
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
    not_allowed="Only administrators can do that here.",
    command_menu={
        "new": "Start a new thread: /new [title]",
        "stop": "Stop the current answer",
        "retry": "Answer the last message again",
        "undo": "Forget the last exchange",
        "threads": "List the threads; /threads NUMBER goes back to one, /threads delete NUMBER deletes it",
        "compact": "Summarize the older part of this thread",
        "usage": "Tokens and cost of this chat",
        "queue": "What is running and waiting; /queue clear drops yours",
        "timezone": "The time zone of this chat: /timezone Europe/Berlin",
        "voice": "Whether my answers are spoken too: /voice on or off",
        "verbose": "How much of my work is shown: /verbose off, short or full",
        "reminders": "See or cancel what is scheduled in this chat",
        "approvals": "What is allowed here without asking; /approvals clear withdraws yours",
        "status": "Connection, model, thread and queue",
        "models": "List the models, or switch: /models [name]",
        "agent": "List the agents, or switch: /agent [name]",
        "research": "Research a question, with a plan, sources and a report: /research QUESTION",
        "skills": "Skills; /skills off NAME, /skills on NAME; /NAME REQUEST uses one right away",
        "knowledge": "Documents that I look things up in: add, remove, list; /knowledge ask QUESTION",
        "memory": "What I remember: show, search, forget, edit, add, export, off, on",
        "forget": "/forget me deletes what I keep about you",
        "whoami": "Your id, for the config",
        "help": "What I can do",
    },
    admin_menu={
        "pair": "Let a person in: /pair CODE",
        "allow": "In a group: let me talk there",
        "disallow": "In a group: silence me again",
        "access": "Who has access; /access allow ID, /access revoke ID",
        "web": "The page in the browser: a link that signs you in; in private",
        "why": "Why a message was answered, or not: reply to it with /why",
    },
    help_intro="Send me a message and I will answer. In groups, mention me or reply to one of my messages. Commands:",
    help_admin="For administrators:",
    help_line="- `/{command}` — {description}",
    unknown_command="I do not know the command {command}.",
    did_you_mean=" Did you mean {suggestion}?",
    see_help=" /help lists them all.",
    which_thread=(
        "In this channel, each thread is a conversation of its own, and I cannot tell which one you mean. Nothing was "
        "changed. Send it in that thread: `/{command}`"
    ),
    new_thread="🆕 New thread. I no longer see what was said before.",
    new_thread_titled="🆕 New thread: **{title}**. I no longer see what was said before.",
    new_stopped_run=" The running answer was stopped.",
    new_dropped=" {count} waiting message(s) were dropped.",
    dropped_by_new="⏹ Not answered: a new thread was started first.",
    dropped_by_revoke="⏹ Not answered: an administrator has revoked access.",
    stop_nothing="Nothing is running here.",
    stop_not_yours="Only the person who asked, or an administrator, can stop this answer.",
    retry_nothing="There is nothing to answer again in this thread.",
    retry_busy="An answer is still in progress here. /stop it first, or wait until it is done.",
    retry_not_yours="Only the person who asked, or an administrator, can retry this answer.",
    retry_not_newest="Only the latest answer can be retried.",
    retry_lost="The last exchange could not be undone, so I did not answer it again. Please ask again.",
    undo={
        "done": "↩️ I have forgotten the last exchange (`{text}`). What it did stays: files are still there.",
        "nothing": "There is nothing to undo in this thread.",
        "busy": "An answer is still in progress here. /stop it first, or wait until it is done.",
        "not_yours": "Only the person who asked, or an administrator, can undo this exchange.",
        "lost": "The last exchange can no longer be undone: the state before it is no longer kept.",
    },
    compact={
        "done": "🗜 I summarized {count} older message(s) of this thread and no longer see them word for word.",
        "nothing": "There is nothing to summarize in this thread yet.",
        "not_now": "⚠️ {trouble}, so I could not summarize the thread. Nothing is lost; please try again in a minute.",
        "failed": "⚠️ I could not summarize the thread, because the model is not available. Nothing has changed; please try again later.",
    },
    threads={
        "head": "**Threads of this conversation**",
        "line": "{number}. `{title}` — {date}{messages}",
        "messages": ", {count} message(s)",
        "here": " ← now",
        "hint": "Go back to one with its button or `/threads NUMBER`; `/threads delete NUMBER` deletes one; /new starts a new one.",
        "resumed": "🧵 Back in `{title}`.",
        "unknown": "There is no thread with that number. /threads lists them.",
        "busy": "An answer is still in progress here. /stop it first, or wait until it is done.",
    },
    forgetting={
        "usage": "Send me `/forget me` in a private chat to delete what I keep about you. I show what that is and ask first.",
        "where": (
            "Send me `/forget me` in a private chat: there I show what will be deleted, and ask first. It also covers "
            "what you said in groups."
        ),
        "ask": (
            "**Delete everything that I keep about you?** This cannot be undone.\n\n"
            "What is deleted:\n"
            "- what I remember about you, your documents (`/knowledge`), and your own skills\n"
            "- all threads of our private chats, with their history and files\n"
            "- the texts of your messages and of my answers that I still store, in groups too\n"
            "- what groups remember because you said it\n"
            "- your reminders, and what you allowed me to do without asking\n\n"
            "What stays:\n"
            "- your access, so that you can keep writing to me (an administrator can remove it with `/access revoke`)\n"
            "- usage figures, without any text\n"
            "- the audit log of commands that were run\n"
            "- what the platform itself keeps of this chat\n\n"
            "In groups, the current thread still knows what you said there, and keeps its files, until somebody "
            "sends /new."
        ),
        "ask_thread": (
            "**Delete the thread `{title}`?** Its history and files will be gone for good. What I remember from it "
            "beyond the thread stays (/memory)."
        ),
        "button_delete": "Delete",
        "button_cancel": "Cancel",
        "kept": "Nothing was deleted.",
        "dropped": "⏹ Not answered: its thread is being deleted.",
        "under_way": "🗑 I am deleting it…",
        "again": "🗑 Not everything could be deleted yet. I keep trying and will tell you here when it is done.",
        "thread_done": "🗑 I deleted the thread with its history and files.",
        "done": "🗑 **I have forgotten you.** I deleted:",
        "nothing": "🗑 **I have forgotten you.** There was nothing of yours left to delete.",
        "count_threads": "- {count} thread(s) with their history and files",
        "count_messages": "- the texts of {count} message(s)",
        "count_reminders": "- {count} reminder(s)",
        "count_facts": "- {count} thing(s) I remembered",
        "stays": (
            "Your access, usage figures without any text, and the audit log stay. A group's current thread knows what you "
            "said there until somebody sends /new in it."
        ),
    },
    usage={
        "title": "**Usage**",
        "tokens": "tokens",
        "cached": "cached",
        "cost": "cost",
        "day": "day",
        "running": "so far",
        "last": "last answer",
        "thread": "this thread",
        "today": "chat today",
        "chat": "chat total",
        "all_today": "all today",
        "all": "all total",
        "budget": "{percent}% of {budget} is used up: {spent} of {limit} (`{key}`)",
        "chart": "The chart shows the tokens of each day; the lighter part came from the provider's cache.",
    },
    queue_nothing="Nothing is running or waiting here.",
    queue_running="**Now:** `{text}` (`{name}`, for {age})",
    queue_head="**Waiting:**",
    queue_line="{number}. `{text}` (`{name}`, for {age})",
    queue_more="… and {count} more",
    queue_arriving="{count} more still arriving",
    queue_hint="/queue clear drops your waiting messages.",
    queue_cleared="{count} waiting message(s) dropped.",
    queue_none_yours="None of your messages are waiting here.",
    models={
        "head": "**Models**",
        "line": "- `{name}`{detail}",
        "current": " ← this conversation",
        "hint": "Switch with `/models name`.",
        "switched": "This conversation now uses `{name}`.",
        "unknown": "There is no model `{name}`. Available: {known}.",
    },
    agents={
        "head": "**Agents**",
        "line": "- `{name}`{detail}",
        "current": " ← this conversation",
        "hint": "Switch with `/agent name`.",
        "switched": "This conversation is now answered by `{name}`.",
        "unknown": "There is no agent `{name}`. Available: {known}.",
    },
    models_thinks=" · thinks first",
    skills={
        "head": "**Skills** ({count} on)",
        "line": "- `{name}` — {detail}{place}",
        "line_off": "- `{name}` — off in this conversation",
        "line_disabled": "- `{name}` — off for everybody",
        "line_waiting": "- `{name}` — waiting for an administrator",
        "waiting_ask": "`{name}` is off until an administrator approves what it contains:\n{reasons}\nTo turn it on exactly as it is: `/skills on {name} {digest}`",
        "waiting_not_yours": "An administrator has to turn `{name}` on.",
        "turned_on": "`{name}` is now on in this form. If it changes, it needs approval again.",
        "mark": " · {place}",
        "none": "There are no skills here.",
        "none_at_all": "Skills are turned off in the config.",
        "no_sandbox": "There are no skills here: I read them in my sandbox, and that is not available. /status says why.",
        "hint": "`/name request` uses one right away; I also pick them myself. `/skills name` shows details, `/skills off name` and `/skills on name` switch one in this conversation.",
        "problems": "⚠️ Problems:",
        "more": "… and {count} more",
        "switched_on": "On again in this conversation: {names}.",
        "switched_off": "Off in this conversation: {names}.",
        "unknown": "There is no skill `{name}` here.",
        "disabled": "`{name}` is turned off for everybody, by `skills.disabled` in the config or by an administrator on the page.",
        "place": "From: {place}",
        "public": "Antler",
        "custom": "this installation",
        "mine": "this chat's own",
        "state": "Here: {state}",
        "on": "on",
        "off": "off",
        "disabled_state": "off for everybody",
        "version": "Version: {version}",
        "author": "Author: {author}",
        "license": "License: {license}",
        "tools": "Tools while it is in use: {tools}",
    },
    research={
        "start": "Start",
        "change": "Change",
        "stop": "Stop",
        "plan_head": "🔎 **{title}**",
        "plan_step": "**{number}. {title}** · {kind}",
        "plan_after": " · after {steps}",
        "plan_new": " · new",
        "plan_gone": "No longer planned: {titles}",
        "plan_files": "📎 Files at hand: {names}",
        "plan_more": " and {count} more",
        "plan_collections": "📚 Searched first: {names}",
        "unknown_collection": "There is no collection {names} here. There are: {there}. The research goes on without it.",
        "no_collections": "There is no collection {names} here, nor any other yet. The research goes on without it.",
        "missing_files": "No file {names} came to this thread. The research goes on without it: to use it, send it, "
        "and say it as a change of the plan, or ask again.",
        "plan_hint": "Nothing is searched before you start. To change the plan, write what should be different.",
        "type_research": "search and read",
        "type_analysis": "analysis",
        "type_processing": "computing",
        "estimate": "Estimate: {calls} model calls, {minutes} min{money}.",
        "estimate_money": ", {least}–{most} {currency}",
        "ask_change": "What should be different? Write it as you would say it.",
        "stopped": "⏹ Stopped. Nothing was searched.",
        "unreadable": "⚠️ The model gave no plan that I could read. Ask again, or choose another model with /models.",
        "nothing_open": "There is no research to go on with here. Begin one: /research QUESTION",
        "nothing_found": "⚠️ No step of the research could be completed, so there is no report.",
        "no_tools": "there is no tool to search or to read the web",
        "report_step": "Report",
        "sources": "Sources",
        "charts": "Charts",
        "no_sources": "No page was cited: what stands here rests on no source that was read in this research.",
        "fetched": "read {date} UTC",
        "check": "Check of the citations",
        "check_cited": "{citations} citation(s) of {sources} source(s); each of them was read in this research.",
        "check_quotes": "{held} of {quotes} quotation(s) stand in the source word for word.",
        "check_misquoted": "“{words}” does not stand in {address}; that citation was taken out.",
        "check_unknown": "{count} citation(s) of sources that there are not were taken out.",
        "check_foreign": "{address} was not read in this research; the link was taken out.",
        "check_dead": "{address} does not answer any more; that source was taken out.",
        "unsourced": "(no source)",
        "check_unsourced": "{count} claim(s) are left without a source and marked “{mark}”.",
        "check_unasked": "{count} of these pages could not be asked for: whether they still answer was not checked.",
        "check_alive": "All of these pages still answered when the report was checked.",
        "check_gone": "Source {number} did not answer when the report was checked ({why}); what was read of it is kept.",
        "gone": "did not answer when the report was checked ({why})",
        "unreachable": "it cannot be reached",
        "check_merged": "{count} page(s) had the same content as another one and count as the same source.",
        "failed": "Steps that were not completed",
        "failed_step": "⚠️ Step {number}, {title}: {why}{detail}",
        "why_failed": "failed",
        "why_timed_out": "reached its time limit",
        "why_cancelled": "was cancelled",
        "summary_facts": "{sources} source(s). {check}",
        "summary_clean": "All citations passed the check.",
        "summary_problems": "The check took {count} citation(s) out; the report says which.",
        "summary_gone": "{count} of the pages did not answer any more.",
        "summary_ask": "Ask about it: “go deeper on {number}”, “why do you believe 1?”",
        "summary_attached": "The whole report: {name}",
        "summary_not_made": "It could not be made as {formats}; an administrator can see why in the log.",
        "doing_coordinator": "Understanding the question",
        "doing_background": "A first look",
        "doing_planner": "Planning",
        "doing_reporter": "Writing the report",
        "off": "Research is switched off here.",
        "no_web": "Research needs a way to search or to read the web, and none is set up here. An administrator can do that in the section `web` of the config.",
        "bad_option": "There is no option `{value}`. `/research --style STYLE --auto QUESTION`: both are optional.",
        "bad_style": "There is no style `{value}`. There are: {styles}.",
        "busy": "Something is running here. Wait for it, or end it with /stop.",
        "nothing_to_resume": "There is no research to go on with in this thread.",
        "none": "There has been no research in this thread.",
        "none_at_all": "There has been no research here.",
        "list_head": "**Research of this chat**",
        "list_line": "**{title}** ({phase}), {sources} source(s)",
        "list_here": "this thread",
        "list_hint": "`/threads` goes to another thread; questions about a research are answered in its own.",
        "exported": "The newest research of this thread: the report with what each step found, and the whole record with its sources.",
        "style_shown": "Reports here are written in the style `{style}`. Another one: `/research style STYLE`, with {styles}; `default` takes it back.",
        "style_changed": "Reports here are written in the style `{style}` from now on.",
        "usage": "Begin one: `/research QUESTION`, with `--style STYLE` or `--auto` (no plan to accept) in front if you like. `/research resume` goes on with one that was interrupted. Also: `/research list`, `/research export`, `/research style STYLE`.",
        "resume_hint": "To go on with it: /research resume",
        "status_head": "🔎 **{title}** ({phase})",
        "status_facts": "{ended} of {steps} steps, {sources} page(s) read.",
        "phase_begun": "begun",
        "phase_asked": "waiting for your answer",
        "phase_review": "the plan waits for you",
        "phase_planning": "being planned",
        "phase_working": "at work, or interrupted",
        "phase_done": "done",
        "phase_stopped": "stopped",
        "phase_failed": "ended without a report",
        "mark_open": "☐",
        "mark_completed": "☑",
        "mark_failed": "✗",
        "mark_timed_out": "⌛",
        "mark_cancelled": "⏹",
    },
    offers={
        "podcast-script": "🎙 Podcast",
        "ppt-generation": "📊 Presentation",
        "deeper": "🔎 Go deeper",
    },
    offer_says={
        "podcast-script": "/podcast-script Make a podcast of the report {report}: two voices, about five minutes, in the report's language. Record it right away.",
        "ppt-generation": "/ppt-generation Make a presentation of the report {report}: about eight slides in the report's language, for people who have to decide what follows from it. Build it right away.",
        "deeper": "/research Go deeper than the report {report}: what it leaves open, what rests on a single source, where its sources contradict each other. What it has already need not be found again.",
    },
    memory={
        "head": "**What I remember about you**",
        "head_group": "**What I remember about this group**",
        "empty": "I remember nothing about you yet. I learn from what you tell me, or with `/memory add TEXT`.",
        "empty_group": "I remember nothing about this group yet. I learn from what is said to me here.",
        "line": "{number}. {text}",
        "until": " (until {date})",
        "more": "… and {count} more: `/memory search WORDS` finds them, `/memory export` has everything.",
        "hint": (
            "`/memory forget NUMBER` · `/memory edit NUMBER TEXT` · `/memory add TEXT` · `/memory search WORDS` · "
            "`/memory export` · `/memory off` · `/memory forget all`"
        ),
        "own": "_This is the own memory of the agent {agent}: other agents do not read it, and it does not read theirs._",
        "is_off": "Memory is off: I learn nothing new and do not use what I know. `/memory on` turns it on.",
        "found": "**What I remember about {words}**",
        "found_none": "I remember nothing about {words}.",
        "usage": (
            "`/memory` shows what I remember. `/memory search WORDS`, `/memory forget NUMBER` (or several), "
            "`/memory forget all`, `/memory edit NUMBER TEXT`, `/memory add TEXT`, `/memory export`, `/memory off`, "
            "`/memory on`."
        ),
        "unknown_number": "There is no number {number} in the list. `/memory` shows the list.",
        "gone": "That is already forgotten. `/memory` shows what is left.",
        "forgotten": ("Forgotten: {numbers}. I will not learn from what was said just before, either."),
        "ask_all": "Forget everything that I remember about you (facts: {count}, and the summaries)?",
        "ask_all_group": "Forget everything that I remember about this group (facts: {count}, and the summaries)?",
        "button_forget": "Forget everything",
        "button_keep": "Keep it",
        "all_gone": (
            "Everything is forgotten (facts: {count}), and I will not learn from what was said just before. This thread "
            "continues as it was; `/new` starts one that knows nothing of it."
        ),
        "stays": "Nothing was changed.",
        "edited": "Number {number} now says: {text}",
        "added": "I remember: {text}",
        "secret": "That looks like a password, a key or another secret. I never remember those.",
        "not_kept": "I cannot remember that: it is empty or too long, reads like an instruction to me, or my memory is full.",
        "off": (
            "Memory is off here: from now on I learn nothing, and I do not use what I know. That stays; "
            "`/memory forget all` deletes it, `/memory on` turns it on again."
        ),
        "on": "Memory is on here.",
        "add_while_off": "Memory is off here. `/memory on` turns it on.",
        "exported": "What I remember, as a text to read (Markdown) and for programs (JSON).",
        "disabled": "The operator has switched memory off: I remember nothing beyond a thread.",
        "disabled_group": "Groups have no memory here: I remember nothing beyond a thread.",
        "unavailable": "⚠️ I cannot reach my memory right now. Nothing was changed; please try again later.",
    },
    knowledge={
        "head": "**Your documents**",
        "head_group": "**The documents of this group**",
        "empty": "You have no documents here yet.",
        "empty_group": "This group has no documents here yet.",
        "line": "{number}. {name} · {collection} · passages: {count}",
        "line_problem": "{number}. ⚠️ {name} · {collection} · {problem}",
        "more": "… and {count} more.",
        "everybodys": "**For everybody**",
        "everybodys_line": "- {name} ({count})",
        "under_way": "⏳ Reading what has changed: {number} of {count}.",
        "hint": (
            "`/knowledge ask QUESTION` · `/knowledge add ADDRESS` · a file with `/knowledge add` below it, or a reply to one "
            "· `/knowledge remove NUMBER`"
        ),
        "usage": (
            "`/knowledge` lists the documents. `/knowledge ask QUESTION` answers from them. `/knowledge add ADDRESS` reads a "
            "page; for a file, send it with `/knowledge add` as its caption, reply to it with `/knowledge add`, or name it: "
            "`/knowledge add report.pdf`. `#name` behind it chooses a collection. `/knowledge remove NUMBER` (or several), "
            "`/knowledge remove #name`, `/knowledge remove all`."
        ),
        "off": "The operator has not switched knowledge on here.",
        "off_group": "Groups have no documents of their own here; `/knowledge ask QUESTION` looks into those for everybody.",
        "reading": "⏳ Reading {name} ({number} of {count}) …",
        "added": "✅ {name}: added to {collection}, passages: {count}",
        "not_added": "⚠️ {name}: {problem}",
        "by_words": "ℹ️ It is found by its words alone until there is room again in a budget.",
        "removed": "Removed ({count}): {names}",
        "nothing": "There is nothing to remove.",
        "unknown_number": "There is no number {number} in the list. `/knowledge` shows the list.",
        "unknown_file": "I have no file called {name} from this thread. Send it with `/knowledge add` as its caption.",
        "reply_unknown": "I have no file of that message. Send the file again, with `/knowledge add` as its caption.",
        "bad_collection": "A collection's name is one word of at most 40 letters, digits, - and _, such as `#handbook`.",
        "too_many": "That is too much at once: at most {count} files and addresses.",
        "full": (
            "You have too much waiting to be read: at most {count} files and addresses at a time. "
            "Nothing of it is lost; send this again when those are done."
        ),
        "full_group": (
            "Too much of this group or of you is waiting to be read: at most {count} files and addresses at a time. "
            "Nothing of it is lost; send this again when those are done."
        ),
    },
    knowledge_problem={
        "too_large": "it is larger than the {detail} MB that are read; send the part that matters, or several files",
        "documents": "there are {detail} documents already, which is the limit; remove one first",
        "passages": "with it there would be more than {detail} passages, which is the limit; remove something first",
        "kind": "files of this kind cannot be read {detail}",
        "empty": "it holds no text; a scanned document has only pictures of it",
        "file": "the file cannot be read ({detail})",
        "no_sandbox": "documents are read in the sandbox, and it does not work now",
        "sandbox": "the sandbox did not take it or did not give it back ({detail})",
        "password": "it is protected by a password; remove the protection, then add it again",
        "conversion": "its text could not be extracted: {detail}",
        "no_web": "the operator has not switched on reading pages; save the page and send it as a file",
        "page": "it could not be read: {detail}",
        "gone": "it was taken away while it was being read",
        "alike": "the collection's name looks like {detail}, which there is already; choose another one",
        "other": "{detail}",
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
        "history.recentMonths": "Recent months",
        "history.earlierContext": "Before that",
        "history.longTermBackground": "Background",
    },
    whoami="You are `{person}`\nThis conversation is `{conversation}`",
    whoami_group="\nThis chat is `{chat}` (for `access.groups.allow`)",
    sign_in={
        "link": "Open this link to sign in to the page as you. It works once, within {life}; do not pass it on.\n{link}",
        "private": "Send me /web in a private chat: whoever has the link is signed in as you.",
        "off": "There is no page here: the operator has not switched it on.",
        "here": "You are signed in here already.",
    },
    goes_on_below="Continues below",
    takes_a_while="⏳ Still working. The answer follows below.",
    button_expired="This button is no longer valid.",
    button_run_now="Run now",
    button_drop="Drop",
    button_retry="Try again",
    pressed={
        "now": "It is next in line.",
        "drop": "Dropped.",
        "retry": "Trying again.",
        "over": "This is already over.",
        "decided": "Already decided: {answer}",
        "begun": "It is already being answered.",
        "making": "This is under way.",
        "made": "This was done; it stands further below. For another one, just say so.",
        "other_thread": "The report belongs to another thread of this chat. /threads goes back to it.",
        "not_here": "I cannot do that here any more.",
        "not_yours": "Only the person who wrote it, or an administrator, can do that.",
        "not_yours_to_stop": "Another person's answer is in progress. Only they, or an administrator, can stop it.",
    },
    why={
        "unknown": "I know no such message. What is said to others, and most of what strangers write, is not kept.",
        "usage": (
            "Reply to a message with /why, or write behind it what names one:\n\n"
            "- the number of a message or the id of an answer, from the log: `812`, `4f1c5cf0a3e94f6ab1d52f0c0d5a9a11`\n"
            "- Telegram, groups: a message's link, `https://t.me/c/1234/56` or `https://t.me/NAME/56`, with a topic in it or not\n"
            "- Slack: a message's link, `https://TEAM.slack.com/archives/C0123/p1700000000000100`\n"
            "- Feishu, Lark: a message's id, `om_…`\n\n"
            "In private chats of Telegram and in WeCom messages have no links, and those that Feishu copies do not say "
            "which message they mean: reply to it there."
        ),
        "event": "**Message {event}** of {place}, {time}",
        "not_answered": "Not answered: {reason}",
        "open": "Nothing is decided yet.",
        "rule": "Let in by: `{rule}`",
        "decided_by": " ({state} by {by}, {time})",
        "run": "Answer `{run}`, for {person}: {state}",
        "detail": " ({detail})",
        "first": "Queue: it was the first and began after {began}",
        "behind": "Queue: {count} before it; it began after {began}",
        "not_begun": "Queue: {count} before it; it has not begun",
        "slot": "Waited for a free slot: {wait}",
        "model": "Model: `{model}` was asked for; calls: {calls}",
        "no_calls": "none",
        "retries": "Tried again: {retries}",
        "fallback": "`{model}` answered instead of `{instead_of}`",
        "starts": "Started {count} times: the process had ended meanwhile",
        "tools": "Tools: {tools}",
        "failed_tool": "{tool} (failed)",
        "approval": "Approval of {tool}: {decision} by {by}, after {wait}",
        "approval_open": "Approval of {tool}: waits",
        "nobody": "nobody",
        "words": "First words after {wait}; ended after {took}",
        "ended": "Ended after {took}",
        "shown": "Wholly shown {wait} after its end",
        "not_shown": "Not wholly shown yet",
        "abandoned": "Not shown: {reason}",
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
        "lead": "Lead: this process (antler {role}, {leader})",
        "standing_by": "Standing by: {names}",
        "alone": "Standing by: nobody",
        "worker": "Worker {name} ({process}, {version}): {running} running, last sign of life {age} ago",
        "not_sending": "Sending: not working right now, answers are waiting",
        "model_down": "Model: `{model}`, which cannot answer right now",
        "connected": "connected",
        "connecting": "connecting",
        "retrying": "reconnecting",
        "stopped": "stopped",
        "sandbox": "Sandbox: {provider}, {state}",
        "servers": "Tool servers ({tools} tools): {states}",
    },
    server_state={
        "connecting": "connecting",
        "ready": "connected",
        "retrying": "not reachable",
        "off": "switched off",
    },
    sandbox_state={
        "starting": "still starting",
        "off": "so I have no files and cannot run commands",
        "failed": "which does not work here: I have no files and cannot run commands",
        "files": "which does not work here: I have files, but cannot run commands",
        "none": "commands are not isolated",
        "restricted": "commands run restricted, with weaker isolation",
        "full": "commands run isolated",
    },
    setup={
        "keys_choose": "(arrow keys, Enter; Esc goes back)",
        "keys_several": "(Space chooses, Enter goes on; Esc goes back)",
        "choose_one": "Choose at least one with the space bar.",
        "yes": "Yes",
        "no": "No",
        "intro": "This sets Antler up. Enter takes what is proposed, Esc goes back, Ctrl-C leaves. Nothing is written before the end.",
        "exists": "There is a config already: {path}",
        "exists_add": "Add to it, or change it",
        "exists_fresh": "Begin a new one; the old one is kept as {name}",
        "platforms": "Where shall people write to Antler?",
        "account_there": "There is an account {account} already.",
        "account_replace": "Give it other credentials",
        "account_another": "Add another bot",
        "feishu_how": "How do you want to connect Feishu or Lark?",
        "feishu_scan": "Scan a code with the app, which creates the bot",
        "feishu_typed": "Type the id and secret of an app that exists",
        "feishu_loading": "Asking Feishu for a code…",
        "feishu_code": "Scan this with the Feishu or Lark app, or open it; it is good for {minutes} minutes:",
        "feishu_made": "The app {app} has been created.",
        "feishu_failed": "No app was created: {why}",
        "manifest": "This link opens Slack with everything filled in; choose your workspace and press Create:",
        "from_environment": "{name} is taken from the environment.",
        "missing_value": "Nothing was typed.",
        "checking": "Checking with {name}…",
        "account_ok": "✓ {name}: @{bot}",
        "account_place": " in {place}",
        "problem": "✗ {what}",
        "weakness": "! {what}",
        "remedy": "  → {remedy}",
        "what_now": "What now?",
        "again": "Type it again",
        "keep": "Keep it as it is",
        "leave_out": "Leave {name} out",
        "model": "Which model answers?",
        "model_local": "{name}, found on this machine",
        "model_url": "Another server with OpenAI's API, by its URL",
        "model_later": "None yet: the built-in demo model, which answers from a script",
        "model_keep": "The ones that are in the config",
        "model_base_url": "URL of the server (mostly ends in /v1):",
        "model_key": "API key:",
        "model_key_free": "API key (empty where the server asks for none):",
        "model_key_where": "Keys are made here: {url}",
        "model_name": "Name of the model:",
        "model_known": "The server has: {names}",
        "model_testing": "Asking {model} for an answer, a tool call and the colour of a picture…",
        "model_answers": "✓ {model} answers after {seconds} s",
        "model_streams": "✓ the answer grows while it is written",
        "model_tools": "✓ it calls tools",
        "model_sees": "✓ it sees pictures",
        "model_blind": "! it does not see pictures, so it is only told of them",
        "sandbox_trying": "Trying where the agent's commands can run…",
        "sandbox": "Where shall the agent's commands run?",
        "sandbox_files": "Nowhere: the agent has files, but runs no commands",
        "sandbox_hint": "apt-get install bubblewrap gives commands a place of their own; /docs/sandbox.md in the repository says more.",
        "zone": "Time zone, for days and reminders:",
        "zone_unknown": "{zone} is no time zone; it is written like Europe/Berlin.",
        "search": "May the agent search the web? What it looks for is sent to the service.",
        "search_none": "No",
        "search_duckduckgo": "Yes, with DuckDuckGo (no key)",
        "search_tavily": "Yes, with Tavily (a key)",
        "tavily_key": "Key of Tavily (app.tavily.com):",
        "pages": "May the agent read public web pages?",
        "voice": "Shall voice messages be turned into text? They are sent to {name}.",
        "review": "This is going to be written to {path}:",
        "review_secrets": "And these secrets to {path}, readable only by you: {names}",
        "write": "Write it?",
        "written": "Written: {paths}",
        "left": "Nothing was written.",
        "start": "What next?",
        "start_now": "Start Antler in this terminal",
        "start_service": "Install it as a service, which also starts with the machine",
        "start_later": "Later",
        "running": "Antler is running and takes over what was written; its log, and `antler status`, say so if something needs a restart.",
        "start_how": "Start it with: {command}",
        "claim": "When it has connected, Antler prints a link with a code: it makes you the bot's administrator.",
    },
    setup_guides={
        "telegram": "Telegram: write /newbot to https://t.me/BotFather. It asks for two names and answers with the token.",
        "slack": "Slack: create the app with the link below. Then Basic Information → App-Level Tokens → Generate, with the scope "
        "connections:write (xapp-...); and Install App → Install to Workspace (xoxb-...).",
        "feishu": "Feishu / Lark: an app's id and secret are under Credentials & Basic Info on https://open.feishu.cn/app (Lark: "
        "https://open.larksuite.com/app). docs/setup-feishu.md lists its permissions and events.",
        "wecom": "WeCom: admin console → Security & Management → Smart robot → Create manually → API mode → long connection. "
        "Bot ID and Secret are shown there.",
    },
    setup_labels={
        "telegram.token": "Bot token:",
        "slack.bot_token": "Bot User OAuth Token (xoxb-...):",
        "slack.app_token": "App-Level Token (xapp-...):",
        "feishu.app_id": "App ID (cli_...):",
        "feishu.app_secret": "App Secret:",
        "wecom.bot_id": "Bot ID:",
        "wecom.secret": "Secret:",
    },
    second="{n} s",
    minute="{n} min",
    hour="{n} h",
    day="{n} d",
)
