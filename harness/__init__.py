"""The agent: graph, middlewares, models, checkpoints. Takes a RunContext, yields RunEvents; knows no chat."""
