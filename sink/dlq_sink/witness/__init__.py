"""The witness: an order is on disk before it is sent, and resolved once the venue has answered."""
