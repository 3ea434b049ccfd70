"""Assembles agents: profile, tools, prompt and middleware chain around a model."""
