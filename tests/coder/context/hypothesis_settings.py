"""Hypothesis settings without deadlines, because the test machine may be slow."""

from hypothesis import HealthCheck, settings

no_deadline = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
