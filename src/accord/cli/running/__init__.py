"""What `accord run` is made of: the arguments, the prompt, consent, the terminal, one turn and its end."""
