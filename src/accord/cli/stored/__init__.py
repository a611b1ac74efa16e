"""What `accord sessions` works on: the stored sessions of an agent, and their transcripts in Markdown and JSON."""
