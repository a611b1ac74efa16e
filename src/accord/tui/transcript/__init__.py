"""The conversation on the screen: what is in it, where each line lies, and the view that shows the lines near the screen."""
