"""Research: a question becomes a plan that a person accepts, steps with findings, and a report with checked
citations."""
