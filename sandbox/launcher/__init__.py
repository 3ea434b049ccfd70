"""Starts programs for the sandbox providers: a small separate process forks them, so that the gateway never has to.

`client` is the gateway's side. `server` receives requests and forks a keeper for each, whose `child` becomes the
program. Everything except `client` runs in the small process and imports only the standard library.
"""
