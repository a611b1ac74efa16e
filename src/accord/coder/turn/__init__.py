"""One turn: the agent loop, the tool runner, sub-agents and questions to the user."""
