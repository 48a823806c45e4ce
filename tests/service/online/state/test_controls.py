"""Control entries, which are all changes of a model but updates: their bytes in the log, and one effect per key."""

from tests.service.online.folds import append, facts, taught
from tests.service.online.state.test_promises import EASY
from tests.support.cases import for_each

from manylabel_core.label_structure import Group
from manylabel_service.idempotency import IdempotencyKey
from manylabel_service.online.state.controls import Describe, Regroup, Relabel, Rollback, SetPromise
from manylabel_service.online.state.log_entries import Change, decode, encode

KEY = IdempotencyKey("k", b"d" * 16)
CONTROLS: dict[str, Change] = {
    "rename": Relabel("p", "r", "log", KEY),
    "retire": Relabel("p", None, "log", KEY),
    "merge": Relabel("p", "q", "log", KEY, merges=True),
    "pause": Relabel("p", None, "log", KEY, paused=True),
    "describe": Describe({"p": {"title": "P", "uri": None}, "\u00e9": {}}, "log", KEY),
    "regroup": Regroup((Group("g", ("p", "q"), "one"),), {"\u00e9": "billing"}, "log", KEY),
    "promise": SetPromise(EASY, "log", KEY),
    "no promise": SetPromise(None, "log", KEY),
    "rollback": Rollback("5", "fsync", KEY),
}


@for_each("change", CONTROLS.values(), ids=CONTROLS)
def test_an_entry_is_read_as_it_was_written_and_done_once(change: Change) -> None:
    assert decode(encode(change)) == change
    model = taught()
    states = {model.position: model.to_bytes()}
    first, again = append(model, change, states), append(model, change, states)
    assert (first.replayed, again.replayed) == (False, True)
    assert facts([first])[0][3:] == facts([again])[0][3:]  # type: ignore[index]
