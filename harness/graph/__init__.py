"""What the nodes of an agent's graph share: state, run scope, signals, messages, tool results."""
