"""What happens in a session: its events, and the state they add up to."""
