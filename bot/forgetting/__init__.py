"""Permanent deletion of threads, and of everything about a person. Each deletion is a row that survives a crash.

Rows of messages, runs and replies lose their words and stay until they expire, because they have other uses: a
message's row holds its dedupe keys and the point from which a platform is queried for missed messages; a run's row has
the checkpoint to which /undo returns in a group's thread, which stays, and the sizes of files for their sender's quota;
a reply's row has the platform's ids. Rows of others can only lose the person's words. Deleting rows would need tables
for all that and save some fifty lines: the rest finds the person's data, waits for running work, and survives kills.
"""
