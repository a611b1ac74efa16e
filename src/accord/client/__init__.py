"""What one needs to drive an agent."""
