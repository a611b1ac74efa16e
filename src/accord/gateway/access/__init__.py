"""Who may do what: tokens and the passes they give, tickets and cookies for browsers, origins, limits, the audit log."""
