"""Text rules that the screens and the command line share: untrusted text and durations. Pure."""
