"""What several notebooks call."""
