"""What one needs to write an agent."""
