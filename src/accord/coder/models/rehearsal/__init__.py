"""The model inside the package: no AI, but a player of plain commands, the same every time."""
