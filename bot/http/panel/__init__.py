"""The pages beside the chat: current activity, threads, people, usage, schedules, skills, memory, servers, the config.

They show what bot/http/resources returns, to the same callers by the same rules.
"""
