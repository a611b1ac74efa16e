"""The text for the model: the system prompt, instructions, prompts as message parts, and compaction of long
histories."""
