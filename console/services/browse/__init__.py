"""Find and order entries: filters, queue order, search."""
