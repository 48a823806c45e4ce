"""The roles of columns are declared in core; the upload, the client and the command have an option for each."""

import inspect
from dataclasses import fields

from manylabel_clients.command.data.files import TableOptions
from manylabel_clients.http.client import Client
from manylabel_core.datasets.formats.example_rows import RowParts
from manylabel_service.api.routers.datasets import Upload

ROLES = {field.name for field in fields(RowParts)}
OF_FILES = {"name", "format", "split", "zero_based"}


def test_an_upload_has_a_parameter_for_each_role_that_a_dataset_stores() -> None:
    assert set(Upload.model_fields) - OF_FILES == ROLES - {"ref"}


def test_the_client_has_an_argument_for_each_role_of_an_upload() -> None:
    arguments = set(inspect.signature(Client.upload_dataset).parameters)
    assert ROLES - {"ref", "label_columns"} | {"labels"} <= arguments


def test_the_command_has_an_option_for_each_role() -> None:
    assert set(TableOptions._fields) == ROLES - {"label_columns"}
