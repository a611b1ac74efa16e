"""The coding agent, measured from outside: as an editor sees it, with a scripted model server behind it."""
