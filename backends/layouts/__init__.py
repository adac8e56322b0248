"""One module per store layout: its columns, what may be written there, and the DDL it is made with."""
