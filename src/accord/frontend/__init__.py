"""Sessions that were: those an agent lists, those recorded here, and what is known of each; for every command that shows them."""
