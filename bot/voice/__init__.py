"""Transcription of voice messages: which are sent to a service, how, and what is reported when that fails."""
