"""What a venue shows of an order and what that proves: look-ups, reconcile, settle, ask. Never sends anything."""
