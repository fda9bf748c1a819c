"""What comes in and goes out: rows with their diffs, checked and converted."""
