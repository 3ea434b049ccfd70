"""Web access for the agent: one guarded way to addresses named by a stranger or the model, reading, searching."""
