"""Decides whether a tool call may be made, by rules or the operator's own provider; "ask" becomes an approval."""
