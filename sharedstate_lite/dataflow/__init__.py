"""The graph in which every operator sees every change; full and shared state run on it."""
