"""Checks of programs that speak the draft of version 2."""
