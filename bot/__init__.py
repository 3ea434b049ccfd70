"""The gateway process: composition root, bus, manager, commands, runs, delivery, store, CLI."""
