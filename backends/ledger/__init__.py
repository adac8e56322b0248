"""Our own tables beside the store: attempts, claims, notes, the halt flag and the audit chain."""
