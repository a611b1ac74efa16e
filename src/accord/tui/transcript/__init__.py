"""The transcript on the screen: its items, the layout of their lines, and the scrolling view."""
