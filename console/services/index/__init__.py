"""The local index as services use it: who keeps it up to date, and whether its figures can be trusted."""
