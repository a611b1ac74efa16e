"""Tells users on their devices, and other programs, that a session waits for them or is done."""
