"""Property tests here have no deadline: the first example of a test may compile a kernel."""

from hypothesis import settings

settings.register_profile("manylabel", deadline=None)
settings.load_profile("manylabel")
