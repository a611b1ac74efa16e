"""Pages of the web, fetched within bounds and only from addresses that may be asked, as readable text."""
