"""State that a user declares and the kit manages: checkpointed, moved between workers, and queried."""
