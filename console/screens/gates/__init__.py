"""Dialogs that ask for a typed answer before anything happens."""
