"""Files as the tools see them: where a name leads, what is in the file and in which form, and what was read before."""
