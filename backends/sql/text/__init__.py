"""SELECTs as plain text, for the store and for the first page, which is read before SQLAlchemy is loaded."""
