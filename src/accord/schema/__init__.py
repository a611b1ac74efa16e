"""The messages of ACP version 1 as types, and everything that can be said about them without I/O."""
