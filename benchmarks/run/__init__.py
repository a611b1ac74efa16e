"""Measures `accord run` beside acpx, another command-line client, with the same agents."""
