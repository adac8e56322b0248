"""What an order means in its market now: what it is worth, how far from the quote, what it does to the position."""
