"""Measures a cluster: three NATS servers with `sync_interval: always`, and three nodes on them."""
