"""Documents of people, groups and the installation: read, kept, searched and taken away again."""
