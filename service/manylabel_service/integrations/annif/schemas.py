"""JSON of Annif's REST interface; its description (annif/openapi/annif.yaml) explains the fields."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from manylabel_service.api.schemas.base import ResponseModel
from manylabel_service.api.web.parameters import Parameters

Metadata = Annotated[dict[str, str], Field(max_length=100)]


class AnnifLimits(Parameters):
    """Parameters of suggestions."""

    limit: Annotated[int, Field(ge=0, le=1_000)] = 10
    """Maximum number of subjects of a document."""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Minimum probability of a subject."""
    language: Annotated[str, Field(max_length=100)] | None = None
    """Accepted but ignored, because a label has only one title."""


class AnnifText(AnnifLimits):
    """Text to index, sent as a form. Fields that begin with `metadata_` become fields of the record."""

    model_config = ConfigDict(extra="ignore")  # Annif's backend `http` adds the name of its project

    text: str


class _Sent(BaseModel, defer_build=True):
    model_config = ConfigDict(extra="ignore")


class AnnifDocument(_Sent):
    """Document to index. Its metadata become fields of the record."""

    text: str
    document_id: str | None = None
    metadata: Metadata | None = None


class AnnifDocuments(_Sent):
    """Documents to index, at most 32."""

    documents: Annotated[list[AnnifDocument], Field(max_length=32)]


class AnnifSubject(_Sent):
    """Label by its URI, or by its name. An unknown label gets this name."""

    uri: Annotated[str, Field(min_length=1)]
    label: str | None = None
    """Accepted but ignored, because titles are set on the labels of the model."""


class AnnifIndexed(_Sent):
    """Document with all its subjects; every other label is false."""

    text: str
    metadata: Metadata | None = None
    subjects: list[AnnifSubject]


class AnnifIndexedDocuments(RootModel[list[AnnifIndexed]]):
    """Documents with their subjects."""


class AnnifInfo(ResponseModel):
    """Description of the interface, with the release of ManyLabel."""

    title: str
    version: str


class AnnifBackend(ResponseModel):
    """Algorithm of a model; `trained` for a trained model."""

    backend_id: str


class AnnifVocabulary(ResponseModel):
    """Labels of a model. The size is null if the model is not in memory."""

    vocab_id: str
    languages: list[Literal["und"]]
    size: int | None
    loaded: bool


class AnnifVocabularies(ResponseModel):
    """Labels of each model that the caller may see."""

    vocabs: list[AnnifVocabulary]


class AnnifProject(ResponseModel):
    """Metadata of a model as an Annif project; `is_trained` is null if the model is not in memory."""

    project_id: str
    name: str
    language: Literal["und"]
    backend: AnnifBackend
    vocab: AnnifVocabulary
    vocab_language: Literal["und"]
    is_trained: bool | None
    modification_time: None


class AnnifProjects(ResponseModel):
    """Models that the caller may see."""

    projects: list[AnnifProject]


class AnnifSuggestion(ResponseModel):
    """Label with its probability. If a label has no URI or no title, its name is used instead."""

    uri: str
    label: str
    notation: None
    score: float


class AnnifSuggestions(ResponseModel):
    """Labels of a text, most probable first."""

    results: list[AnnifSuggestion]


class AnnifDocumentSuggestions(AnnifSuggestions):
    """Labels of a document, with its id."""

    document_id: str | None
