"""Sandboxes on another machine over HTTP: the provider `remote`, its contract (openapi.yaml) and a reference server for
any local provider. See docs/sandbox-remote.md."""
