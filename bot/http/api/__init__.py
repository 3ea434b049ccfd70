"""The API for programs: threads and runs as LangGraph's SDK speaks of them, and OpenAI's chats and responses.

Both are made of the same runs as any chat's: `runs.py` begins and ends them in the threads of `threads.py`, `stream.py`
tells what they do. What clients send is read by `content.py`.
"""
