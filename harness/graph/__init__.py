"""What every node of an agent's graph shares: state, run scope, signals, messages, results of tools."""
