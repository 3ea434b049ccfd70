"""The agent: graph, middlewares, models, checkpoints. Takes a RunContext, yields RunEvents; knows no chat.

Stays light (no langgraph here): bot/ imports harness.events long before the agent is needed.
"""

import os

# langgraph reads this at import: without it a checkpoint file can name any callable. threads/checkpoints.py checks it.
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
# A tracing switch left in the environment by another project must not send conversations to a third party.
os.environ["LANGSMITH_TRACING"] = "false"
os.environ["LANGCHAIN_TRACING_V2"] = "false"
