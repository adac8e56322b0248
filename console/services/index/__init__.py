"""The local index from the services' side: the process that keeps it, and what it says."""
