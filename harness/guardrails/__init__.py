"""Whether a tool call may be made: rules or a provider of the operator's own decide, and "ask" becomes an approval."""
