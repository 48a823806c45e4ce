"""Other learners of tags from text, each used as in its documentation."""

import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Record = dict[str, Any]


def vowpal_wabbit(records: list[Record], Y: NDArray[np.int8], fields: Sequence[str]) -> NDArray[np.int8]:
    """Return the prediction of each record before it is learnt. Each field has a namespace."""
    from vowpalwabbit import pyvw

    options = f"--multilabel_oaa {Y.shape[1]} --loss_function logistic --bit_precision 24 --quiet"
    model = pyvw.Workspace(options)
    predicted = np.zeros_like(Y)
    for row, (record, y) in enumerate(zip(records, Y, strict=True)):
        line = _vw_line(record, fields)
        predicted[row, model.predict(line)] = 1
        model.learn(f"{','.join(map(str, np.flatnonzero(y)))} {line}")
    model.finish()
    return predicted


def _vw_line(record: Record, fields: Sequence[str]) -> str:
    spaces = []
    for name, value in record.items():
        if name in fields:
            spaces.append(f"|{name} " + " ".join(re.findall(r"\w\w+", value.lower())))
        elif isinstance(value, str):
            spaces.append(f"|{name} " + re.sub(r"[\s|:]", "_", value))
        else:
            spaces.append(f"|{name} value:{float(value):g}")
    return " ".join(spaces)


def river_bag_of_words(fields: Sequence[str]) -> Any:
    """Return river's word counts of the joined fields with a logistic regression per tag."""
    from river import compose, feature_extraction, linear_model, multioutput

    def joined(record: Record) -> str:
        return " ".join(record[field] for field in fields)

    words = compose.FuncTransformer(joined) | feature_extraction.BagOfWords(lowercase=True)
    return words | multioutput.PerOutputClassifier(linear_model.LogisticRegression())


def linear_svc(records: list[Record], Y: NDArray[np.int8], asked: list[Record]) -> NDArray[np.int8]:
    """Return the predictions of scikit-learn's LinearSVC per tag on TF-IDF of the joined title and text."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    texts = [f"{record['title']} {record['text']}" for record in records + asked]
    model = make_pipeline(TfidfVectorizer(sublinear_tf=True), OneVsRestClassifier(LinearSVC()))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Label not")  # some tags occur only in the second half
        model.fit(texts[: len(Y)], Y.astype(np.int64))  # which has many labels: it numbers them in the type of Y
    return np.asarray(model.predict(texts[len(Y) :]), dtype=np.int8)
