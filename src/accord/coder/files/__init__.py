"""Files for the tools: path resolution, encodings, search, and the record of what the model has read."""
