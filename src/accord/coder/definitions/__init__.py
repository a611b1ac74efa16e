"""Skills and custom agents, which users and projects define in Markdown files."""
