"""Turns records into lines of toned text and makes text from outside safe. No I/O, no clock, no Textual."""
