"""Several gateway nodes on several machines serve one set of sessions, on NATS JetStream.

Loaded only with `accord serve --cluster`; it needs the extra `accord[cluster]`. docs/cluster.md is for users.
"""
