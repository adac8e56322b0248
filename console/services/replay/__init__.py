"""Send an order again: plan, claim, look up, submit, record, reconcile."""
