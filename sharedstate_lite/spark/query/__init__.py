"""The streaming query and the stateful operator that Spark runs."""
