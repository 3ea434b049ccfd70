"""Foreign text made fit to be kept, shown and put before a model."""
