"""HTTP service for the learners of manylabel_core."""

from manylabel_extras import require

require(__name__, "server")
