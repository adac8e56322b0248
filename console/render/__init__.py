"""Records → lines of toned text. Pure: no I/O, no clock, no Textual; all that comes from outside is made safe here."""
