"""Files and processes within the roots of a session."""
