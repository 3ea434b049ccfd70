"""Groups of commands of the command line; bot/__main__.py has the single commands."""
