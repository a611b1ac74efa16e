"""Where the user writes: the editor, its history, completions of commands and files, what is attached, what is queued."""
