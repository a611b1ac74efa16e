"""What the model is told: instructions, the system prompt, prompts as parts, and how a long history is kept small."""
