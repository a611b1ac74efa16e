"""What the model is told: the system prompt, instructions, prompts as message parts, and compaction of long
histories."""
