"""What the user is asked, each sort of question in a file of its own; all of them wait until they have been seen."""
