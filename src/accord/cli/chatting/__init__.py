"""What `accord chat` is made of beside the screen: its arguments, and the conversation without a terminal."""
