"""Copies of the files that turns change, so that they can be brought back."""
