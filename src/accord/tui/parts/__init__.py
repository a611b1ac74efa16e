"""The parts that transcript items are drawn of: each turns itself into lines of a given width."""
