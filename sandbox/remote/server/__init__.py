"""The reference server of the provider `remote`: `python -m sandbox.remote.server --config FILE`."""
