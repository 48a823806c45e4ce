"""Export to ONNX: inputs are names and values of features and texts, outputs are scores. Needs the extra onnx."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from manylabel_clients.export.portable import CannotExport, Portable
from manylabel_core.records.number_fields import MAX_NUMBER_FIELDS, NumberFields, given_names
from manylabel_core.records.tokeniser import emoji_pattern
from manylabel_core.scaling._automatic import (
    AWAY,
    EARLY,
    FAR,
    FAR_IN_A_ROW,
    FAR_OF_FEW,
    FEW,
    LEAVES,
    NEAR_IN_A_ROW,
    NEARBY,
    VARIES,
    WAITS,
)
from manylabel_extras import require

require(__name__, "onnx")

from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSETS = {"": 20, "ai.onnx.ml": 4, "com.microsoft": 1}
IR_VERSION = 10
NONE = "\x01"
"""Text that is appended to the input so that there is at least one text; its token is omitted."""


def onnx_file(model: Portable) -> bytes:
    """Return the file; raises CannotExport for text options that ONNX lacks."""
    graph = _Graph()
    names, values = "names", "values"
    inputs = [("names", TensorProto.STRING), ("values", TensorProto.FLOAT)]
    if model["text"] is not None:
        _check_text(model["text"])
        inputs += [("texts", TensorProto.STRING), ("fields", TensorProto.STRING)]
        tokens, weights = _tokens(graph, model["text"]["min_length"])
        names = graph.node("Concat", names, tokens, axis=0)
        values = graph.node("Concat", values, weights, axis=0)
    x, listed, unseen = _placed(graph, names, graph.cast(values), model["features"])
    scaled = _SCALINGS[model["scaling"]["kind"]](graph, x, listed, unseen, _with_given(model))
    row = graph.node("Reshape", scaled, graph.integers([1, -1]))
    product = graph.node("MatMul", row, graph.numbers(model["weights"], (len(model["features"]["names"]), -1)))
    if "ranks" in model:
        product = graph.node("Add", product, _of_ranks(graph, x, listed, model["ranks"]))
    graph.node(
        "Add", graph.node("Reshape", product, graph.integers([-1])), graph.numbers(model["intercept"]), to="scores"
    )
    outputs = [("scores", TensorProto.DOUBLE)]
    if (likely := model["probability"]) is not None:
        margin = graph.node("Mul", "scores", graph.numbers(likely["slope"]))
        logits, knot = graph.node("Add", margin, graph.numbers(likely["offset"])), graph.numbers([likely["knot"]])
        above = graph.node("Relu", graph.node("Sub", logits, knot))
        bent = graph.node("Mul", above, graph.numbers([likely["bend"]]))
        graph.node("Sigmoid", graph.node("Add", graph.node("Min", logits, knot), bent), to="probabilities")
        outputs.append(("probabilities", TensorProto.DOUBLE))
    made = helper.make_graph(
        graph.nodes,
        "manylabel",
        [helper.make_tensor_value_info(name, kind, [None]) for name, kind in inputs],
        [helper.make_tensor_value_info(name, kind, [len(model["labels"])]) for name, kind in outputs],
        graph.constants,
    )
    return _sealed(made, model)


def _sealed(graph: Any, model: Portable) -> bytes:
    opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
    made: ModelProto = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="manylabel")
    facts = {"labels": json.dumps(model["labels"]), "text": json.dumps(model["text"]), "model": model["model"]}
    helper.set_model_props(made, facts)
    data: bytes = made.SerializeToString()
    return data


def _check_text(text: dict[str, Any]) -> None:
    """Raise CannotExport for text options without ONNX operators."""
    beyond = [name for name in ("chars", "stop_words") if text[name]]
    beyond += ["ngrams"] if list(text["ngrams"]) != [1, 1] else []
    if beyond:
        raise CannotExport(
            f"ONNX reads single words only, and the model's text has {', '.join(beyond)}: use python or json"
        )


class _Graph:
    """Graph under construction: operators on doubles, each with one numbered result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def node(self, operator: str, *inputs: str, to: str | None = None, domain: str = "", **attributes: Any) -> str:
        name = to or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], domain=domain, **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def numbers(self, values: Any, shape: tuple[int, ...] | None = None) -> str:
        array = np.array(values, dtype=np.float64)
        return self.constant(array if shape is None else array.reshape(shape))

    def integers(self, values: Any) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def strings(self, values: list[str]) -> str:
        name = f"c{len(self.constants)}"
        encoded = [value.encode() for value in values]
        self.constants.append(helper.make_tensor(name, TensorProto.STRING, [len(values)], encoded))  # type: ignore[arg-type]
        return name

    def cast(self, name: str, kind: int = TensorProto.DOUBLE) -> str:
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node("Cast", [name], [result], to=kind))
        return result

    def op(self, operator: str, left: str | float, right: str | float) -> str:
        """Return an operator on two results, or numbers."""
        a, b = (one if isinstance(one, str) else self.numbers(one) for one in (left, right))
        return self.node(operator, a, b)

    def lookup(self, names: str, columns: dict[str, int]) -> str:
        """Return the columns of strings; -1 for unknown strings."""
        keys, values = zip(*(columns or {NONE: -1}).items(), strict=True)
        return self.node(
            "LabelEncoder", names, domain="ai.onnx.ml", keys_strings=keys, values_int64s=values, default_int64=-1
        )

    def among(self, names: str, some: Iterable[str]) -> str:
        """Return which strings are in a list."""
        return self.node("GreaterOrEqual", self.lookup(names, dict.fromkeys(some, 0)), self.integers(0))

    def total(self, name: str) -> str:
        return self.node("ReduceSum", name, keepdims=0)

    def where(self, condition: str, yes: str | float, no: str | float) -> str:
        a, b = (one if isinstance(one, str) else self.numbers(one) for one in (yes, no))
        return self.node("Where", condition, a, b)


def _word(min_length: int) -> str:
    """Return the RE2 pattern of a word of the record tokeniser; emoji may be shorter than the minimum length."""
    words = [rf"[\p{{L}}\p{{N}}_][\p{{L}}\p{{N}}_\p{{M}}]{{{max(1, min_length - 1)},}}"]
    words += [r"[a-z]\+\+"] * (min_length <= 3) + [r"[a-z][+#]\B"] * (min_length <= 2)
    words += [r"[\p{L}\p{N}_]"] * (min_length == 1) + [emoji_pattern()]
    return "|".join(words)


def _tokens(graph: _Graph, min_length: int) -> tuple[str, str]:
    """Return the distinct tokens of texts, and their values: 1 + log of their counts."""
    lowered = graph.node("StringNormalizer", "texts", case_change_action="LOWER", locale="C.UTF-8")
    several = graph.node("Concat", lowered, graph.strings([NONE * 3 + "none"]), axis=0)
    fields = graph.node("Concat", "fields", graph.strings([NONE]), axis=0)
    expression = _word(min_length)
    words = graph.node(
        "Tokenizer", several, domain="com.microsoft", mark=0, mincharnum=1, pad_value="", tokenexp=expression
    )
    column = graph.node("Reshape", graph.node("StringConcat", fields, graph.strings(["="])), graph.integers([-1, 1]))
    is_word = graph.node("Not", graph.node("Equal", words, graph.strings([""])))
    named = graph.node("Reshape", graph.node("StringConcat", column, words), graph.integers([-1]))
    present = graph.node("Compress", named, graph.node("Reshape", is_word, graph.integers([-1])), axis=0)
    unique, counts = f"v{len(graph.nodes)}", f"n{len(graph.nodes)}"
    graph.nodes.append(helper.make_node("Unique", [present], [unique, "", "", counts], sorted=0))
    kept = graph.node("Not", graph.node("Equal", unique, graph.strings([f"{NONE}=none"])))
    times = graph.node("Compress", counts, kept, axis=0)
    floats = graph.cast(times, TensorProto.FLOAT)
    one = graph.constant(np.array(1.0, dtype=np.float32))
    weights = graph.node("Add", graph.node("Log", floats), one)
    return graph.node("Compress", unique, kept, axis=0), weights


def _placed(graph: _Graph, names: str, values: str, features: dict[str, Any]) -> tuple[str, str, str | None]:
    """Return the values by column, 0 if missing, a mask of present columns, and the values of other features."""
    if features["unseen"]:
        raise CannotExport("the model counts some unknown features until its limit is reached, which ONNX cannot do")
    known_names = [str(name) for name in features["names"]]
    columns = graph.lookup(names, dict(zip(known_names, range(len(known_names)), strict=True)))
    given = _given(graph, names, features)
    if given is not None:
        columns = graph.node("Concat", given, columns, axis=0)
        ones = graph.op("Add", graph.op("Mul", graph.cast(given), 0.0), 1.0)
        values = graph.node("Concat", ones, values, axis=0)
    is_known = graph.node("GreaterOrEqual", columns, graph.integers(0))
    places = graph.node("Compress", columns, is_known, axis=0)
    found = graph.node("Compress", values, is_known, axis=0)
    zeros = graph.numbers(np.zeros(len(known_names)))
    x = graph.node("ScatterElements", zeros, places, found)
    ones = graph.op("Add", graph.op("Mul", found, 0.0), 1.0)
    listed = graph.op("Greater", graph.node("ScatterElements", zeros, places, ones), 0.0)
    if features["unseen"] == 0:
        return x, listed, None
    return x, listed, graph.node("Compress", values, graph.node("Not", is_known), axis=0)


def _given(graph: _Graph, names: str, features: dict[str, Any]) -> str | None:
    """Return the columns of the features that mark present optional numbers; -1 for unknown features."""
    if features["numbered"]:
        return None
    column = {name: place for place, name in enumerate(features["names"])}
    columns = {name: column[given] for name, given in given_names(column).items()}
    if features["numbers"] is None:
        return graph.lookup(names, columns) if columns else None
    fields = NumberFields.from_json(features["numbers"])
    if fields.seen is None or fields.always is None:
        return None
    is_number = graph.node("RegexFullMatch", names, pattern="[^=]*")
    n_others = graph.total(graph.where(is_number, 0.0, 1.0))
    is_new = graph.node("And", is_number, graph.node("Not", graph.among(names, fields.seen)))
    room = float(MAX_NUMBER_FIELDS - len(fields.seen))
    are_few = graph.op("LessOrEqual", graph.total(graph.where(is_new, 1.0, 0.0)), room)
    of_records = graph.op("Greater", n_others, -1.0 if fields.of_records else 0.0)
    is_optional = graph.node("And", is_number, graph.node("Not", graph.among(names, fields.always)))
    is_given = graph.node("And", is_optional, graph.node("And", are_few, of_records))
    return graph.node("Compress", graph.lookup(names, columns), is_given, axis=0)


def _with_given(model: Portable) -> dict[str, Any]:
    """Return the scaling with 1 for each optional number that another feature marks as present, as in
    `LinearPredictor`."""
    scaling: dict[str, Any] = model["scaling"]
    features = model["features"]
    if scaling["kind"] != "auto":
        return scaling
    given = [0.0] * len(features["names"])
    if features["numbers"] is not None:
        column = {name: place for place, name in enumerate(features["names"])}
        for number, other in given_names(column).items():
            given[column[number]] = float(scaling["values"][column[other]] > 0.0)
    return {**scaling, "given": given}


def _as_it_is(graph: _Graph, x: str, listed: str, unseen: str | None, scaling: dict[str, Any]) -> str:
    return x


def _unit_norm(graph: _Graph, x: str, listed: str, unseen: str | None, scaling: dict[str, Any]) -> str:
    return _divided(graph, x, _squares(graph, x, unseen))


def _standardised(graph: _Graph, shifted: str, variance: str) -> str:
    """Return values divided by the root of their variance, 0 if missing."""
    varies = graph.op("Greater", variance, 0.0)
    return graph.where(varies, graph.op("Div", shifted, graph.node("Sqrt", graph.where(varies, variance, 1.0))), 0.0)


def _automatic(graph: _Graph, x: str, listed: str, unseen: str | None, scaling: dict[str, Any]) -> str:
    """Scale all features at once, as `predictor._Automatic` does."""
    count, zero_is_missing = scaling["count"], scaling["missing"] == "zero"
    own = {name: np.array(each, dtype=np.float64) for name, each in scaling.items() if isinstance(each, list)}
    was = (2.0 * own["values"] > count) & _varies(own)
    n, was_dense = count + 1.0, graph.constant(was)
    is_zero = graph.op("Equal", x, 0.0)
    counts = graph.node("And", listed, graph.node("Not", is_zero))
    has = counts if zero_is_missing else graph.node("Or", counts, graph.node("And", listed, was_dense))
    known_before = np.full(len(was), count) if zero_is_missing else own["having"]
    few = (was.sum() <= FEW) & (was | _is_optional(own, known_before))
    near, included, restarts = _followed(graph, x, counts, own, few)
    # The moments include the value.
    since, same, mean, squares = (
        graph.where(restarts, 0.0, graph.numbers(own[name])) for name in ("since", "same", "mean", "squares")
    )
    repeats = graph.node("And", included, graph.op("Equal", x, graph.numbers(own["last"])))
    n_values = graph.op("Add", graph.numbers(own["values"]), graph.where(counts, 1.0, 0.0))
    since = graph.op("Add", since, graph.where(included, 1.0, 0.0))
    same = graph.op("Add", same, graph.where(repeats, 1.0, 0.0))
    safe = graph.op("Max", since, 1.0)
    distance = graph.where(included, graph.op("Sub", near, mean), 0.0)
    after = graph.op("Add", mean, graph.op("Div", distance, safe))
    gone = graph.where(included, graph.op("Sub", near, after), 0.0)
    spread = graph.op("Add", squares, graph.op("Mul", distance, gone))
    power = graph.op("Mul", after, after)
    of_power = graph.op("Mul", since, power)
    varies = graph.op("Greater", spread, graph.op("Mul", of_power, VARIES))
    most = graph.op("Greater", graph.op("Mul", n_values, 2.0), n)
    concerned = graph.node("Or", was_dense, has)
    is_dense = graph.node("And", graph.node("And", most, varies), concerned)
    having = graph.op("Add", graph.numbers(own["having"]), graph.where(has, 1.0, 0.0))
    known = graph.numbers(np.full(len(was), n)) if zero_is_missing else graph.op("Max", having, 1.0)
    often = graph.node(
        "And",
        graph.op("GreaterOrEqual", n_values, EARLY),
        graph.op("Greater", graph.op("Mul", n_values, 2.0), known),
    )
    differs = graph.op("Less", graph.op("Mul", same, 3.0), since)
    far = graph.op("Greater", of_power, graph.op("Mul", spread, AWAY * AWAY))
    far = graph.node("Or", far, graph.constant(own["given"] > 0.0))
    is_optional = graph.node("And", counts, often)
    for condition in (differs, varies, far, graph.node("Not", is_dense)):
        is_optional = graph.node("And", is_optional, condition)
    share = graph.op("Div", n_values, known)
    rest = graph.op("Mul", power, graph.op("Mul", share, graph.op("Sub", 1.0, share)))
    shifted = graph.op("Sub", near, graph.op("Mul", share, after))
    variance = graph.op("Div", spread, safe)
    quantity = _standardised(graph, shifted, graph.op("Add", graph.op("Mul", variance, share), rest))
    rarity = graph.op("Div", n + 1.0, graph.op("Add", n_values, 1.0))
    for _ in range(3):
        rarity = graph.node("Sqrt", rarity)
    other = _standardised(graph, graph.op("Mul", rarity, near), graph.op("Add", variance, power))
    optional = graph.where(is_optional, graph.op("Mul", rarity, quantity), other)
    wanted = concerned if zero_is_missing else has
    scaled = graph.where(wanted, graph.where(is_dense, quantity, optional), 0.0)
    return _to_length(graph, scaled, graph.node("Or", is_dense, is_optional), unseen, n)


def _of_ranks(graph: _Graph, x: str, listed: str, ranks: dict[str, Any]) -> str:
    """Return the contribution of the ranks to the scores: each rank is a sum over the intervals between points."""
    most = max(map(len, ranks["values"]))
    points = np.array([[*each, *each[-1:] * (most - len(each))] for each in ranks["values"]])
    heights = np.array([[*each, *each[-1:] * (most - len(each))] for each in ranks["ranks"]])
    widths = np.diff(points)
    slopes = np.diff(heights) / np.where(widths > 0.0, widths, 1.0)
    columns = graph.integers(ranks["features"])
    values = graph.node("Gather", x, columns)
    beyond = graph.op("Sub", graph.node("Reshape", values, graph.integers([-1, 1])), graph.numbers(points[:, :-1]))
    between = graph.op("Min", graph.op("Max", beyond, 0.0), graph.numbers(widths))
    rises = graph.node("ReduceSum", graph.op("Mul", between, graph.numbers(slopes)), graph.integers([1]), keepdims=0)
    given = graph.node("Gather", listed, columns)
    if ranks["zero_is_missing"]:
        given = graph.node("And", given, graph.node("Not", graph.op("Equal", values, 0.0)))
    found = graph.where(given, graph.op("Add", rises, graph.numbers(heights[:, 0])), 0.0)
    row = graph.node("Reshape", found, graph.integers([1, -1]))
    return graph.node("MatMul", row, graph.numbers(ranks["weights"], (len(points), -1)))


def _varies(own: dict[str, Any]) -> Any:
    return own["squares"] > VARIES * own["since"] * own["mean"] * own["mean"]


def _is_optional(own: dict[str, Any], n_known: Any) -> Any:
    often = (own["values"] >= EARLY) & (2.0 * own["values"] > n_known)
    far = own["since"] * own["mean"] * own["mean"] > AWAY * AWAY * own["squares"]
    return often & (3.0 * own["same"] < own["since"]) & _varies(own) & (far | (own["given"] > 0.0))


def _followed(graph: _Graph, x: str, counts: str, own: dict[str, Any], few: Any) -> tuple[str, str, str]:
    """Return the values clipped to the reach, which of them count in the moments, and which moments restart."""
    varies, since, mean, run = _varies(own), own["since"], own["mean"], own["run"]
    spread = np.sqrt(np.where(varies, own["squares"] / np.maximum(since, 1.0), VARIES * since))
    unit = np.where(varies, spread, 0.05 * spread * np.abs(mean))
    unit = np.where(since < EARLY, np.inf, unit)
    from_mean = graph.node("Abs", graph.op("Sub", x, graph.numbers(mean)))
    step = graph.node("Abs", graph.op("Sub", x, graph.numbers(own["last"])))
    far = graph.node("And", counts, graph.op("Greater", from_mean, graph.numbers(LEAVES * unit)))
    near = graph.op("Less", step, graph.numbers(np.where(varies, NEARBY * spread, 0.0)))
    near = graph.node("And", near, graph.op("Greater", step, 0.0))
    near = graph.node("And", graph.node("And", near, counts), graph.node("Not", far))
    ends = graph.node("And", far, graph.constant(run + 1 >= FAR_IN_A_ROW))
    restarts = graph.node("Or", ends, graph.node("And", near, graph.constant(run - 1 <= -NEAR_IN_A_ROW)))
    waits = graph.node("And", far, graph.constant((run + 1 >= WAITS) & (run + 1 < FAR_IN_A_ROW)))
    reach = unit * np.where(few, FAR_OF_FEW, FAR)
    cut = graph.op("Min", graph.op("Max", x, graph.numbers(mean - reach)), graph.numbers(mean + reach))
    kept = graph.where(graph.node("And", counts, graph.node("Not", restarts)), cut, x)
    return kept, graph.node("And", counts, graph.node("Not", waits)), restarts


def _to_length(graph: _Graph, scaled: str, is_quantity: str, unseen: str | None, n: float) -> str:
    """Divide by the typical norm of a few quantities, or by the Euclidean norm."""
    n_quantities = graph.total(graph.where(is_quantity, 1.0, 0.0))
    is_other = graph.node("And", graph.node("Not", is_quantity), graph.node("Not", graph.op("Equal", scaled, 0.0)))
    n_others = graph.total(graph.where(is_other, 1.0, 0.0))
    total = graph.total(graph.op("Mul", scaled, scaled))
    if unseen is not None:
        strangers = graph.total(graph.where(graph.op("Equal", unseen, 0.0), 0.0, 1.0))
        n_others = graph.op("Add", n_others, strangers)
        total = graph.op("Add", total, graph.op("Mul", strangers, ((n + 1.0) / 2.0) ** 0.25))
    some = graph.node("And", graph.op("Greater", n_quantities, 0.0), graph.op("LessOrEqual", n_quantities, float(FEW)))
    few = graph.node("And", some, graph.op("LessOrEqual", n_others, n_quantities))
    return _divided(graph, scaled, graph.where(few, n_quantities, total))


def _squares(graph: _Graph, x: str, unseen: str | None) -> str:
    total = graph.total(graph.op("Mul", x, x))
    return total if unseen is None else graph.op("Add", total, graph.total(graph.op("Mul", unseen, unseen)))


def _divided(graph: _Graph, x: str, total: str) -> str:
    """Return values divided by the root of a number, unchanged if it is 0."""
    return graph.op("Div", x, graph.node("Sqrt", graph.where(graph.op("Greater", total, 0.0), total, 1.0)))


_SCALINGS = {"none": _as_it_is, "unit": _unit_norm, "auto": _automatic}
