"""Full, shared and partial state, to look at in one process and to scale on Spark."""
