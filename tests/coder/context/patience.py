"""How property tests run here: without a clock, for a loaded machine is no defect."""

from hypothesis import HealthCheck, settings

patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
