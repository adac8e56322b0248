"""Sorting entries out without sending them: dismiss, restore, approvals, advice, archive. Knows no venue."""
