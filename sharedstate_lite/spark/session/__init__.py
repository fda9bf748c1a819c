"""One Spark session: its Java, its settings, its start and end."""
