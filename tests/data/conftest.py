"""The Spark session of the tests that make a shop."""

from sparks import spark

__all__ = ["spark"]
