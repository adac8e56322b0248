"""Settings from the operator's machine: config, secrets, identity, recent stores. Knows no service and no screen."""
