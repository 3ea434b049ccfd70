"""Parts of the static scanner: kinds of files, texts as the rules read them, and the rules."""
