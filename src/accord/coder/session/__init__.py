"""One session: its state and log, options, slash commands, and how it is opened and closed."""
