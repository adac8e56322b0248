"""The queue screen: its table, its loader, its search preview."""
