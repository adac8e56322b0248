"""What a venue, a person and the audit trail say of an entry, as lines. Pure."""
