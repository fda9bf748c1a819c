"""What the three strategies have in common: the protocol, the state as tables, trace and checkpoint."""
