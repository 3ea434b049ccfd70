"""Starts programs for the sandbox providers: a small process of its own forks them, so that the gateway never has to.

`client` is the gateway's side. `server` receives what to start and forks a keeper for each, whose `child` becomes the
program. Everything but `client` runs in the small process and imports the standard library only.
"""
