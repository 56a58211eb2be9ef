"""Models without gradients: trees, a session, kernels. They see cells, so the bump that decides lies at the same steps."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from packages import Case

from timex import Series

OTHERS = ("occlusion", "kernel_shap")


def flat(series: Series) -> np.ndarray[Any, Any]:
    """Series as rows of a table."""
    return series.x.reshape(len(series), -1)


def random_forest(train: Series, test: Series) -> Case:
    """scikit-learn."""
    from sklearn.ensemble import RandomForestClassifier

    return Case(RandomForestClassifier(100, random_state=0).fit(flat(train), train.labels), {}, train, test, OTHERS)


def boosted_trees(train: Series, test: Series) -> Case:
    """LightGBM."""
    import lightgbm

    model = lightgbm.LGBMClassifier(n_estimators=50, verbose=-1, n_jobs=1, random_state=0)
    return Case(model.fit(flat(train), train.labels), {}, train, test, OTHERS)


def onnx_session(train: Series, test: Series) -> Case:
    """An ONNX Runtime session."""
    import onnxruntime
    from skl2onnx import to_onnx
    from sklearn.neural_network import MLPClassifier

    model = MLPClassifier((32,), max_iter=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(flat(train), train.labels)
        graph = to_onnx(model, flat(train)[:1], options={"zipmap": False})
    return Case(onnxruntime.InferenceSession(graph.SerializeToString()), {}, train, test, OTHERS)


def gradient_boosting(train: Series, test: Series) -> Case:
    """XGBoost."""
    import xgboost

    model = xgboost.XGBClassifier(n_estimators=50, n_jobs=1, random_state=0).fit(flat(train), train.labels)
    return Case(model, {}, train, test, OTHERS)


def hydra(train: Series, test: Series) -> Case:
    """aeon's HYDRA: convolutional kernels and a ridge classifier; its bump may lie anywhere."""
    from aeon.classification.convolution_based import HydraClassifier

    model = HydraClassifier(n_kernels=8, n_groups=16, random_state=0)
    return Case(model.fit(train.x.transpose(0, 2, 1), train.labels), {"layout": "BDT"}, train, test, OTHERS)
