"""What people ask of each other: plans that wait for a second person."""
