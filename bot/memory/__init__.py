"""What is remembered of people and groups: the book that changes it, the queue that fills it, the commands' view."""
