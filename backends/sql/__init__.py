"""The store contract over SQLAlchemy Core: one transaction per act, rows to records, driver errors to store errors."""
