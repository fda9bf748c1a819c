"""Partial state over bins."""
