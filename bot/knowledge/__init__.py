"""Documents of people, groups and the installation: read, stored, searched and removed."""
