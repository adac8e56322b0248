"""Sort entries out: dismiss, restore, approve, advise, archive."""
