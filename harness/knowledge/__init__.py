"""Private knowledge: texts split into passages that can be found by words and by meaning, and cited."""
