"""Where conversations with an agent are kept, and what is done to them between turns."""
