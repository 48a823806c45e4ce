"""JSON of requests and responses, by resource; this package exports all models.

These models validate requests. Responses are written without them, for speed; tests validate responses by the models.
"""

# ruff: noqa: F403  (the modules have nothing but models, and naming each again would be two lists more)

from manylabel_service.api.schemas.audit import *
from manylabel_service.api.schemas.base import *
from manylabel_service.api.schemas.datasets import *
from manylabel_service.api.schemas.forgetting import *
from manylabel_service.api.schemas.history import *
from manylabel_service.api.schemas.jobs import *
from manylabel_service.api.schemas.keys import *
from manylabel_service.api.schemas.learning import *
from manylabel_service.api.schemas.models import *
from manylabel_service.api.schemas.requests import *
from manylabel_service.api.schemas.versions import *
from manylabel_service.api.schemas.webhooks import *
from manylabel_service.api.web.problems import ProblemDocument as ProblemDocument
