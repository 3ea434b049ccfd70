"""What people put off: kept in the database, put into the inbox when it is due, answered like a message of theirs."""
