"""Knowledge about programs: which start others, which only read, and what an "always" covers."""
