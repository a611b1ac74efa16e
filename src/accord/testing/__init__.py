"""For everyone who tests an agent or a client."""
