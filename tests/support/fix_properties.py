"""How Hypothesis looks for counterexamples: an example that takes long is no failure."""

from hypothesis import HealthCheck, settings

# Time is taken by the clock: a machine with other work to do would decide about the result, or the
# first example of all, for which Hypothesis builds its table of characters.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
