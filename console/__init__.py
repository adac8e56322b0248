"""The operator's side: services, the command line and the screens."""

__version__ = "0.2.0"
