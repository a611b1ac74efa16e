"""The gateway measured from outside: what it costs per message, how it fans out, how much it keeps, how fast one is back."""
