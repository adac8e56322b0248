"""Text rules that screens and the command line share: untrusted text made inert, durations."""
