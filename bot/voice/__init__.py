"""Voice messages become words: what of a message is speech, asking a transcription service, what is told on failure."""
