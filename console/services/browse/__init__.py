"""Finding entries and putting them in order. Reads stores and the index; knows no venue and no screen."""
