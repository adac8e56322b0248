"""For engines: capture a failed order, replay one through the engine's own venue."""
