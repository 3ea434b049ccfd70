"""The path of an event from the platform to its conversation: bus, gate, manager, buttons, connections."""
