"""Settings for the whole test run."""

from hypothesis import settings

settings.register_profile("forerun", derandomize=True, deadline=None, database=None)
settings.load_profile("forerun")
