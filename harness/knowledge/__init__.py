"""Knowledge of one's own: texts cut into passages that can be found by words and by meaning, and cited."""
