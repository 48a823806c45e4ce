"""Outgoing webhooks: `sources` finds events, `deliverer` queues them, `sender` posts them, `webhook` stores them."""
