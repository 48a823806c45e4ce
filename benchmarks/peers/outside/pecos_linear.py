"""PECOS's XR-Linear, run by the Python of an environment with libpecos; rows are L2-normalised."""

import numpy as np
import scipy.sparse as sp
from exchange import answer
from pecos.xmc import Indexer, LabelEmbeddingFactory
from pecos.xmc.xlinear.model import XLinearModel


def unit(X):
    X = sp.csr_matrix(X, dtype=np.float32)
    norms = np.sqrt(X.multiply(X).sum(axis=1)).A1
    X = sp.csr_matrix(sp.diags(1.0 / np.maximum(norms, 1e-12)) @ X, dtype=np.float32)
    X.sort_indices()
    return X


def fit(X, Y, setting):
    X, Y = unit(X), sp.csr_matrix(Y, dtype=np.float32)
    clusters = Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"), nr_splits=16)
    model = XLinearModel.train(X, Y, C=clusters, threads=1, **setting)
    return lambda other: model.predict(unit(other), only_topk=Y.shape[1], beam_size=50, threads=1)


answer(fit)
