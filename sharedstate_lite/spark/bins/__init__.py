"""What runs in one bin of one stage, and what travels between bins; needs no Spark."""
