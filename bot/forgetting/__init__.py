"""Deleting for good: threads, and everything of a person. Each deletion is a row that outlives a crash.

Rows of messages, runs and replies lose their words and stay until their age, because more than words is read from them:
a message's holds its dedupe keys and tells from where a platform is asked for what was missed; a run's has the
checkpoint that /undo returns to in a group's thread, which stays, and the sizes of files for their sender's quota; a
reply's has the platform's ids. Rows of others can only lose the person's words. Deleting rows would need tables for all
that, to save some fifty lines: the rest finds what is the person's, waits for what is under way, and survives kills.
"""
