"""Views as trees of operators, explained and drawn as a graph."""
