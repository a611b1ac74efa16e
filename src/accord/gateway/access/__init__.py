"""Access control of the gateway: tokens and their rights, browser logins, origins, limits, the audit log."""
