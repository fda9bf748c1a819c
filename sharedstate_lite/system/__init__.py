"""The caches folder, commands, and folders that go with the process that made them."""
