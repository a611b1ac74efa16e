"""Looking through folders: glob patterns, walks that know what git ignores, and searching in the text of files."""
