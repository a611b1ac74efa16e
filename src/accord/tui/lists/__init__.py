"""Lists to choose from on a screen of their own: rows that are drawn line by line, and a filter of a few letters above them."""
