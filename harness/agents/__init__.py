"""Agents put together: profile, tools, prompt and middleware chain around a model."""
