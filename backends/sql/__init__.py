"""The store contract over SQLAlchemy Core: one transaction per method, rows to records, driver errors to store errors."""
