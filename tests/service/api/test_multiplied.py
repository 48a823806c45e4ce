"""Every parameter of every call is listed with what it multiplies with, and each product is in `tests/bodies`."""

from pathlib import Path

import pytest
from tests.support.multiplied import NOTHING, PARAMETERS, described_parameters, loads

from manylabel_service.app import create_app
from manylabel_service.settings import Settings
from manylabel_service.storage import open_store


@pytest.fixture(scope="module")
def parameters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The parameters of each call, as OpenAPI describes them."""
    directory: Path = tmp_path_factory.mktemp("openapi")
    settings = Settings(data_dir=directory)
    return described_parameters(create_app(settings, open_store(settings)).openapi())


def test_each_call_and_parameter_is_listed(parameters: dict[str, set[str]]) -> None:
    """A new one fails here until `PARAMETERS` has what it multiplies with; then `loads` needs a request for it."""
    assert {call: sorted(names) for call, names in parameters.items()} == {
        call: sorted(names) for call, names in PARAMETERS.items()
    }


def test_each_product_is_tried() -> None:
    tried = {(load.call, name) for load in loads(lambda name: "3") for name in load.parameters}
    products = {(call, name) for call, names in PARAMETERS.items() for name, other in names.items() if other != NOTHING}
    assert products == tried


def test_the_requests_of_a_call_have_different_names() -> None:
    names = [(load.call, load.what, load.path) for load in loads(lambda name: "3")]
    assert len(names) == len(set(names))
