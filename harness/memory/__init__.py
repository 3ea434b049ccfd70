"""What the agent remembers about the people it talks to, across conversations; light to import, for bot/."""
