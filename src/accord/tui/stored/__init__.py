"""The sessions there were, of every agent: gathered from the agents and from what was recorded here, shown, and taken up again."""
