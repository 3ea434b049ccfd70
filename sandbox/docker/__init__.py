"""The provider `docker`: one container per thread."""
