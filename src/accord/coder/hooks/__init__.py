"""Hooks: commands of the user or of a trusted project that run at events of a session.

Imported on first use.
"""
