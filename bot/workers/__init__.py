"""Runs in processes of their own: the gateway orders them and follows what they tell, workers work on them."""
