"""What is known about programs: which start others, which only read, and what makes two calls "the same command"."""
