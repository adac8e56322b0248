"""Implements the store contract over SQLAlchemy Core, for the order layout and, in `other`, for layouts of others."""
