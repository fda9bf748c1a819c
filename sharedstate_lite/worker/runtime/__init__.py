"""What runs in a runtime's process, and the wire to it; knows no handle."""
