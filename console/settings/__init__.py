"""What the operator's machine says: config, folders, secrets, identity, recently opened stores."""
