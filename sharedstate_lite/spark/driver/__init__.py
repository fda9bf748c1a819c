"""The driver's half of an engine on Spark, and what its checkpoint shows."""
