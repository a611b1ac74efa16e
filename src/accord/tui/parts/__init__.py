"""What a conversation is drawn of: parts that turn themselves into lines for a width, each file one sort of them."""
