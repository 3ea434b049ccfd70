"""The web for the agent: one guarded way to fetch what a stranger or the model named, reading pages, searching."""
