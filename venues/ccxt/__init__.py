"""Every exchange that ccxt has."""
