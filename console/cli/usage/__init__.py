"""The one table of verbs and options, and what is made from it: help, completions, the man page."""
