"""The ledger: the console's own tables beside the store, and the rules of its audit chain."""
