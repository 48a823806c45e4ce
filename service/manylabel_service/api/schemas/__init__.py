"""JSON of requests and responses that several endpoints share; the other models are in the files of their endpoints.

For speed, frequent and long responses are written without these models; tests validate the responses with the models.
"""

# ruff: noqa: F403  (the modules contain only models, and naming each again would add two lists)

from manylabel_service.api.schemas.base import *
from manylabel_service.api.schemas.learning import *
from manylabel_service.api.schemas.metrics import *
from manylabel_service.api.schemas.models import *
from manylabel_service.api.schemas.requests import *
