"""Peers of `indexers`, run by the Python of an environment that has them: `SCRIPT NAME PROBLEM SCORES`.

Needs NumPy, SciPy and scikit-learn; Parabel and Bonsai need omikuji, XR-Linear needs libpecos. One thread each.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

BEST = 100


def tfidf(counts, Y):
    """Annif's backend `tfidf`: the texts of a subject are one document, and the score is the cosine of TF-IDF."""
    subjects = sp.csr_matrix(Y.T @ counts)
    weighed = TfidfTransformer().fit(subjects)
    vectors = weighed.transform(subjects).T.tocsr()
    return lambda other: sp.csr_matrix(weighed.transform(other) @ vectors)


def omikuji(**setting):
    def fit(counts, Y):
        from omikuji import Model

        weighed = TfidfTransformer().fit(counts)
        X = weighed.transform(counts)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "train.txt"
            with path.open("w") as file:
                file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
                file.writelines(
                    f"{','.join(map(str, row(Y, at)[0]))} {pairs(*row(X, at))}\n" for at in range(X.shape[0])
                )
            parameters = Model.default_hyper_param()
            for name, value in setting.items():
                setattr(parameters, name, value)
            model = Model.train_on_data(str(path), parameters, n_threads=1)

        def score(other):
            rows = weighed.transform(other)
            given = (zip(*row(rows, at), strict=True) for at in range(rows.shape[0]))
            found = [model.predict([(int(f), float(v)) for f, v in own], top_k=BEST) for own in given]
            ends = np.cumsum([0, *map(len, found)])
            flat = np.array([pair for own in found for pair in own])
            return sp.csr_matrix((flat[:, 1], flat[:, 0].astype(np.int32), ends), shape=(rows.shape[0], Y.shape[1]))

        return score

    return fit


def xr_linear(counts, Y):
    from pecos.xmc import Indexer, LabelEmbeddingFactory
    from pecos.xmc.xlinear.model import XLinearModel

    weighed = TfidfTransformer().fit(counts)
    X, Y = (sp.csr_matrix(each, dtype=np.float32) for each in (weighed.transform(counts), Y))
    X.sort_indices()
    clusters = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"), nr_splits=16)
    model = XLinearModel.train(X, Y, C=clusters, threads=1)

    def score(other):
        rows = sp.csr_matrix(weighed.transform(other), dtype=np.float32)
        rows.sort_indices()
        return model.predict(rows, only_topk=BEST, beam_size=50, threads=1)

    return score


FITS = {
    "tfidf": tfidf,
    "parabel": omikuji(),
    "bonsai": omikuji(cluster_balanced=False, cluster_k=100, max_depth=3),
    "xr-linear": xr_linear,
}


def row(matrix, at):
    own = slice(matrix.indptr[at], matrix.indptr[at + 1])
    return matrix.indices[own], matrix.data[own]


def pairs(columns, values):
    order = np.argsort(columns)
    return " ".join(f"{column}:{value:.6g}" for column, value in zip(columns[order], values[order], strict=False))


def best(scores):
    """Keep the best scores of each row."""
    scores = sp.csr_matrix(scores)
    for at in range(scores.shape[0]):
        own = scores.data[scores.indptr[at] : scores.indptr[at + 1]]
        if len(own) > BEST:
            own[np.argsort(own)[:-BEST]] = 0.0
    scores.eliminate_zeros()
    return scores


def main():
    name, problem, scores = sys.argv[1:]
    with np.load(problem, allow_pickle=False) as file:
        X, Y, other = (
            sp.csr_matrix(
                tuple(file[f"{part}_{each}"] for each in ("data", "indices", "indptr")), shape=file[f"{part}_shape"]
            )
            for part in ("X", "Y", "other")
        )
    kept = Y.getnnz(axis=1) > 0
    began = time.process_time()
    score = FITS[name](X[kept], Y[kept])
    seconds = time.process_time() - began
    found = best(score(other))
    figures = [seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10]
    np.savez(scores, data=found.data, indices=found.indices, indptr=found.indptr, shape=found.shape, figures=figures)


main()
