"""Checks of updates before they are logged: whether the model that learns them must check them again."""

from collections.abc import Callable

from tests.service.online.folds import named, taught
from tests.support.cases import for_each

from manylabel_core.label_structure import Group
from manylabel_service.hosting.examples import Example, Labels
from manylabel_service.online.state.dry_run import DryRun
from manylabel_service.online.state.model import OnlineModel

CHANGES: dict[str, Callable[[OnlineModel], object]] = {
    "retire": lambda model: model.retire("p"),
    "regroup": lambda model: model.regroup([Group("g", ("p", "q"), "one")], {}),
}


@for_each("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_labels_during_a_check_requires_another(change: Callable[[OnlineModel], object]) -> None:
    """Other tasks run between two examples, and every replica must reject the same updates."""
    model = taught()
    check = DryRun(model)
    check.add(Example(named(a=1), Labels.all_of(["p", "q"])))
    change(model)
    check.add(Example(named(a=1), Labels.all_of(["q"])))
    assert not check.checked.still_valid(model)
