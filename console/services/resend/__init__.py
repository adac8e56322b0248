"""Send entries of the other layouts again: outbox messages, provider calls, hub retries."""
