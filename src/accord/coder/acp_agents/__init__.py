"""Other ACP agents that work for a session: as sub-agents, or as its model. Imported on first use."""
