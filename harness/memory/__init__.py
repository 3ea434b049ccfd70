"""What the agent knows of whom it talks to, from one conversation to the next; light to import, for bot/."""
