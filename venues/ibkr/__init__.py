"""The client for Interactive Brokers, through a running TWS or Gateway."""
