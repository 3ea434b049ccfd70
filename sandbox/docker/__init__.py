"""The provider `docker`: one container for each thread."""
