"""Joins, aggregates and expressions over deltas and arrangements, each written once."""
