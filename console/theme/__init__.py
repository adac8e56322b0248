"""Colours by purpose, and the Textual themes made of them."""
