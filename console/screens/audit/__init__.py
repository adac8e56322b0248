"""What was done on this store: the trail with its filter, and the entries of one event."""
