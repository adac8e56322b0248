"""The command line: arguments, headless verbs, exit codes. The only room that prints and exits."""
