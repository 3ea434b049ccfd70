"""Where commands run and files live."""
