"""One session for all tests of this room."""

from sparks import kill_workers, spark

__all__ = ["kill_workers", "spark"]
