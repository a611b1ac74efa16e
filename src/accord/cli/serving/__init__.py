"""The parts of `accord serve`: its arguments and settings, what it says at the start, its log, and the tokens."""
