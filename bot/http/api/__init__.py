"""The API for programs: threads and runs in the terms of LangGraph's SDK, and OpenAI's chats and responses.

Both are built on the same runs as any chat: `runs.py` begins and ends them in the threads of `threads.py`, `stream.py`
streams their events. What clients send is read by `content.py`.
"""
