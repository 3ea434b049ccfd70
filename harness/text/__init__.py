"""Makes foreign text safe to store, to display and to put into prompts."""
