"""The command line: arguments, verbs, output, exit codes. The only folder that prints and exits."""
