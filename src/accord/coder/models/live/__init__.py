"""Models of real providers, through pydantic-ai's model classes. Imported on first use only."""
