"""How results and progress reach a terminal or a file."""
