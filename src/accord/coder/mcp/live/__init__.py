"""What needs the `mcp` package: connections to servers, and their words in ours. Imported in the background only."""
