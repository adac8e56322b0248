"""For engines: replay one entry through the engine's own venue."""
