"""The wire view: what crosses the connection of a session, as it happens."""
