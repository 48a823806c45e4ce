"""Export to ONNX: inputs are names and values of features and texts, outputs are scores. Needs the extra onnx."""

import json
from typing import Any

import numpy as np

from manylabel_clients.export.portable import CannotExport, Portable
from manylabel_clients.export.predictor import EARLY, FAR, FAR_OF_FEW, FEW, VARIES
from manylabel_extras import require

require(__name__, "onnx")

from onnx import ModelProto, TensorProto, helper, numpy_helper

OPSETS = {"": 20, "ai.onnx.ml": 4, "com.microsoft": 1}
IR_VERSION = 10
WORD = r"[\p{L}\p{N}_]+(?:\p{M}+[\p{L}\p{N}_]*)*"
"""Word of the tokeniser of records, as a RE2 pattern."""
NONE = "\x01"
"""Text appended to the others so that there is at least one; its token is omitted."""


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
    scaled = _SCALINGS[model["scaling"]["kind"]](graph, x, listed, unseen, model["scaling"])
    row = graph.node("Reshape", scaled, graph.integers([1, -1]))
    product = graph.node("MatMul", row, graph.numbers(model["weights"], (len(model["features"]["names"]), -1)))
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

    def total(self, name: str) -> str:
        return self.node("ReduceSum", name, keepdims=0)

    def where(self, condition: str, yes: str | float, no: str | float) -> str:
        a, b = (one if isinstance(one, str) else self.numbers(one) for one in (yes, no))
        return self.node("Where", condition, a, b)


def _tokens(graph: _Graph, min_length: int) -> tuple[str, str]:
    """Return the distinct tokens of texts, and their values: 1 + log of their counts."""
    lowered = graph.node("StringNormalizer", "texts", case_change_action="LOWER", locale="C.UTF-8")
    several = graph.node("Concat", lowered, graph.strings([NONE * 3 + "none"]), axis=0)
    fields = graph.node("Concat", "fields", graph.strings([NONE]), axis=0)
    words = graph.node(
        "Tokenizer", several, domain="com.microsoft", mark=0, mincharnum=min_length, pad_value="", tokenexp=WORD
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
    known_names = [str(name) for name in features["names"]]
    columns = graph.node(
        "LabelEncoder", names, domain="ai.onnx.ml",
        keys_strings=known_names, values_int64s=list(range(len(known_names))), default_int64=-1,
    )  # fmt: skip
    is_known = graph.node("GreaterOrEqual", columns, graph.integers(0))
    places = graph.node("Compress", columns, is_known, axis=0)
    found = graph.node("Compress", values, is_known, axis=0)
    zeros = graph.numbers(np.zeros(len(known_names)))
    x = graph.node("ScatterElements", zeros, places, found)
    ones = graph.op("Add", graph.op("Mul", found, 0.0), 1.0)
    listed = graph.op("Greater", graph.node("ScatterElements", zeros, places, ones), 0.0)
    if features["unseen"] == 0:
        return x, listed, None
    if features["unseen"] is not None:
        raise CannotExport("the model counts some unknown features until its limit is reached, which ONNX cannot do")
    return x, listed, graph.node("Compress", values, graph.node("Not", is_known), axis=0)


def _as_it_is(graph: _Graph, x: str, listed: str, unseen: str | None, scaling: dict[str, Any]) -> str:
    return x


def _unit_norm(graph: _Graph, x: str, listed: str, unseen: str | None, scaling: dict[str, Any]) -> str:
    return _divided(graph, x, _squares(graph, x, unseen))


def _standardised(graph: _Graph, shifted: str, variance: str) -> str:
    """Return values divided by the root of their variance, 0 if missing."""
    varies = graph.op("Greater", variance, 0.0)
    return graph.where(varies, graph.op("Div", shifted, graph.node("Sqrt", graph.where(varies, variance, 1.0))), 0.0)


def _automatic(graph: _Graph, x: str, listed: str, unseen: str | None, scaling: dict[str, Any]) -> str:
    """Scale as `predictor._Automatic` does, all features at once."""
    count, zero_is_missing = scaling["count"], scaling["missing"] == "zero"
    values, mean, squares = (np.array(scaling[name]) for name in ("values", "mean", "squares"))
    was = (2.0 * values > count) & (squares > VARIES * values * mean * mean)
    n, was_dense = count + 1.0, graph.constant(was)
    is_zero = graph.op("Equal", x, 0.0)
    counts = graph.node("And", listed, graph.node("Not", is_zero))
    has = counts if zero_is_missing else graph.node("Or", counts, graph.node("And", listed, was_dense))
    near = _within_reach(graph, x, counts, values, mean, squares, was)
    # The moments after the value is included, if it is not 0.
    n_values = graph.op("Add", graph.numbers(values), graph.where(counts, 1.0, 0.0))
    safe = graph.op("Max", n_values, 1.0)
    distance = graph.where(counts, graph.op("Sub", near, graph.numbers(mean)), 0.0)
    after = graph.op("Add", graph.numbers(mean), graph.op("Div", distance, safe))
    gone = graph.where(counts, graph.op("Sub", near, after), 0.0)
    spread = graph.op("Add", graph.numbers(squares), graph.op("Mul", distance, gone))
    power = graph.op("Mul", after, after)
    most = graph.op("Greater", graph.op("Mul", n_values, 2.0), n)
    varies = graph.op("Greater", spread, graph.op("Mul", graph.op("Mul", n_values, VARIES), power))
    concerned = graph.node("Or", was_dense, has)
    is_dense = graph.node("And", graph.node("And", most, varies), concerned)
    having = graph.op("Add", graph.numbers(scaling["having"]), graph.where(has, 1.0, 0.0))
    known = graph.numbers(np.full(len(values), n)) if zero_is_missing else graph.op("Max", having, 1.0)
    share = graph.op("Div", n_values, known)
    rest = graph.op("Mul", power, graph.op("Mul", share, graph.op("Sub", 1.0, share)))
    shifted = graph.op("Sub", near, graph.op("Mul", share, after))
    dense = _standardised(graph, shifted, graph.op("Add", graph.op("Div", spread, known), rest))
    rarity = graph.op("Div", n + 1.0, graph.op("Add", n_values, 1.0))
    for _ in range(3):
        rarity = graph.node("Sqrt", rarity)
    usual = graph.op("Add", graph.op("Div", spread, safe), power)
    other = _standardised(graph, graph.op("Mul", rarity, near), usual)
    wanted = concerned if zero_is_missing else has
    scaled = graph.where(wanted, graph.where(is_dense, dense, other), 0.0)
    return _to_length(graph, scaled, is_dense, unseen, n)


def _within_reach(graph: _Graph, x: str, counts: str, values: Any, mean: Any, squares: Any, was: Any) -> str:
    """Return values clipped around their mean."""
    far = np.where(was & (was.sum() <= FEW), FAR_OF_FEW, FAR)
    varies = squares > VARIES * values * mean * mean
    spread = far * np.sqrt(squares / np.maximum(values, 1.0))
    reach = np.where(varies, spread, 0.5 * np.sqrt(VARIES * values) * np.abs(mean))
    reach = np.where(values < EARLY, np.inf, reach)
    cut = graph.op("Min", graph.op("Max", x, graph.numbers(mean - reach)), graph.numbers(mean + reach))
    return graph.where(counts, cut, x)


def _to_length(graph: _Graph, scaled: str, is_dense: str, unseen: str | None, n: float) -> str:
    """Divide by the typical norm of a few quantities, or by the Euclidean norm."""
    n_quantities = graph.total(graph.where(is_dense, 1.0, 0.0))
    is_other = graph.node("And", graph.node("Not", is_dense), graph.node("Not", graph.op("Equal", scaled, 0.0)))
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
