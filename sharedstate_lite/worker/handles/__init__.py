"""What a driver makes and a task holds: handles, and what they ask with."""
