"""Research: a question becomes a plan that a person accepts, steps with findings, a report whose citations are
checked."""
