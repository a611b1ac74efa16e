"""A report as people and programs want to see it: text, JSON, JUnit, one page of HTML."""
