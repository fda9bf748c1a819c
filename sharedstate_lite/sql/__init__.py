"""SQL text to a plan."""
