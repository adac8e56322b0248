"""What became of an order: asking the venue, reconciling, and settling by a person's word."""
