"""Does it follow the protocol? Conformance of agents and of clients, rule by rule, with the frames that show it."""
