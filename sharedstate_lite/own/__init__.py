"""Commands over a user's own SQL and files: why a row is there, and why another one is not.

files    reads a file of views, and tables from CSV and Parquet files
why      ``sharedstate why``
"""
