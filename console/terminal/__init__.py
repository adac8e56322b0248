"""The terminal around the app: first frame, driver, output guard, shutdown, clipboard."""
