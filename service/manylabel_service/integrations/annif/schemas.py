"""The JSON of Annif's REST interface; its description (annif/openapi/annif.yaml) says what the fields are."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.api.web.parameters import Parameters

Metadata = Annotated[dict[str, str], Field(max_length=100)]


class AnnifLimits(Parameters):
    """Which subjects are suggested."""

    limit: Annotated[int, Field(ge=0, le=1_000_000)] = 10
    """Maximum number of subjects of a document."""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Minimum probability of a subject."""
    language: Annotated[str, Field(max_length=100)] | None = None
    """Accepted and not used: a label has one title."""


class AnnifText(AnnifLimits):
    """A text to index, as a form. Fields that begin with `metadata_` become fields of the record."""

    model_config = ConfigDict(extra="ignore")  # Annif's backend `http` adds the name of its project

    text: str


class _Sent(BaseModel):
    model_config = ConfigDict(extra="ignore")


class AnnifDocument(_Sent):
    """A document to index. Its metadata become fields of the record."""

    text: str
    document_id: str | None = None
    metadata: Metadata | None = None


class AnnifDocuments(_Sent):
    """Documents to index, at most 32."""

    documents: Annotated[list[AnnifDocument], Field(max_length=32)]


class AnnifSubject(_Sent):
    """A label by its URI, or by its name. A label that the model does not have gets this name."""

    uri: Annotated[str, Field(min_length=1)]
    label: str | None = None
    """Accepted and not used: titles are given to labels."""


class AnnifIndexed(_Sent):
    """A document with all its subjects: every other label is irrelevant to it."""

    text: str
    metadata: Metadata | None = None
    subjects: list[AnnifSubject]


class AnnifIndexedDocuments(RootModel[list[AnnifIndexed]]):
    """Documents with their subjects."""


class AnnifInfo(ResponseModel):
    """The interface, and the release of ManyLabel."""

    title: str
    version: str


class AnnifBackend(ResponseModel):
    """The algorithm of a model; `trained` if jobs train it."""

    backend_id: str


class AnnifVocabulary(ResponseModel):
    """The labels of a model. The size is null for a model that is not in memory."""

    vocab_id: str
    languages: list[Literal["und"]]
    size: int | None
    loaded: bool


class AnnifVocabularies(ResponseModel):
    """The labels of each model that the caller may see."""

    vocabs: list[AnnifVocabulary]


class AnnifProject(ResponseModel):
    """A model, as Annif describes a project. Nothing is said of whether a model that is not in memory is trained."""

    project_id: str
    name: str
    language: Literal["und"]
    backend: AnnifBackend
    vocab: AnnifVocabulary
    vocab_language: Literal["und"]
    is_trained: bool | None
    modification_time: None


class AnnifProjects(ResponseModel):
    """The models that the caller may see."""

    projects: list[AnnifProject]


class AnnifSuggestion(ResponseModel):
    """A label with its probability. One without a URI or a title has its name there."""

    uri: str
    label: str
    notation: None
    score: float


class AnnifSuggestions(ResponseModel):
    """The labels of a text, the most probable first."""

    results: list[AnnifSuggestion]


class AnnifDocumentSuggestions(AnnifSuggestions):
    """The labels of a document, which had this id."""

    document_id: str | None


BODIES: tuple[type[BaseModel], ...] = (AnnifText, AnnifDocuments, AnnifIndexedDocuments)
"""Those that routes do not name as their `response_model`."""
