"""Sandboxes of another machine over HTTP: the provider `remote`, the contract it speaks (openapi.yaml) and a reference
server over any local provider. See docs/sandbox-remote.md."""
