"""Rows as sorted runs of machine words: batches, arrangements, the string dictionary."""
