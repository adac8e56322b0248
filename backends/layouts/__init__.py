"""The store layouts: columns, what may be written, DDL, and how credentials in them are masked."""
