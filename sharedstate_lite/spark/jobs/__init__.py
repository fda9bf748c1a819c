"""Streams that Spark reads itself, to a sink."""
