"""The pages beside the chat: what goes on, threads, people, usage, schedules, skills, memory, servers, configuration.

They show what bot/http/resources answers, to the same callers by the same rules.
"""
