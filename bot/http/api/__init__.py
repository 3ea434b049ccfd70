"""The API for programs: threads and runs as LangGraph's SDK speaks of them, and OpenAI's chats and responses.

Both are made of the same runs as any chat's: `service.py` begins, follows and ends them; `stream.py` tells what they do.
"""
