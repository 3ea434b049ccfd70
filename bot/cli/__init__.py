"""Groups of commands of the command line; bot/__main__.py has those that stand by themselves."""
