"""What `accord sessions` prints for programs: entries and transcripts in JSON."""
