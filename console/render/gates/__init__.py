"""What the gates show before an act, as lines. Pure."""
