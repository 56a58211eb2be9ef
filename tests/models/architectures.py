"""Architectures and forecasters of Hugging Face, tsai and neuralforecast, built from their configurations."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

import torch
from packages import Case, D, T, cross_entropy, first, trained
from torch import nn

from timex import Series

H = 4
"""Steps ahead: after a bump upwards channel 1 stays at 1, else at -1."""


def patchtst(train: Series, test: Series) -> Case:
    """Hugging Face PatchTSTForClassification."""
    from transformers import PatchTSTConfig, PatchTSTForClassification

    size = {"d_model": 32, "num_attention_heads": 4, "ffn_dim": 64, "num_hidden_layers": 2}
    config = PatchTSTConfig(num_input_channels=D, context_length=T, patch_length=8, patch_stride=4, num_targets=2, **size)
    model = PatchTSTForClassification(config)
    trained(model, lambda m, x: m(past_values=x).prediction_logits, cross_entropy, train)
    return Case(model, {"forward": "past_values"}, train, test)


def patchtst_regression(train: Series, test: Series) -> Case:
    """Hugging Face PatchTSTForRegression."""
    from transformers import PatchTSTConfig, PatchTSTForRegression

    size = {"d_model": 32, "num_attention_heads": 4, "ffn_dim": 64, "num_hidden_layers": 2}
    config = PatchTSTConfig(num_input_channels=D, context_length=T, patch_length=8, patch_stride=4, num_targets=1, **size)
    model = PatchTSTForRegression(config)
    call = lambda m, x: m(past_values=x).regression_outputs[:, 0]  # noqa: E731
    trained(model, call, lambda p, y: (p - 2 * y + 1).square().mean(), train)
    return Case(model, {"forward": "past_values", "task": "regress"}, train, test)


def patchtsmixer(train: Series, test: Series) -> Case:
    """Hugging Face PatchTSMixerForTimeSeriesClassification."""
    from transformers import PatchTSMixerConfig, PatchTSMixerForTimeSeriesClassification

    size = {"d_model": 16, "num_layers": 2, "mode": "mix_channel"}
    config = PatchTSMixerConfig(
        num_input_channels=D, context_length=T, patch_length=8, patch_stride=4, num_targets=2, num_labels=2, **size
    )
    model = PatchTSMixerForTimeSeriesClassification(config)
    trained(model, lambda m, x: m(past_values=x).prediction_outputs, cross_entropy, train)
    return Case(model, {"forward": "past_values"}, train, test)


def patchtst_forecast(train: Series, test: Series) -> Case:
    """Hugging Face PatchTSTForPrediction."""
    from transformers import PatchTSTConfig, PatchTSTForPrediction

    size = {"d_model": 32, "num_attention_heads": 4, "ffn_dim": 64, "num_hidden_layers": 2}
    shape = {"num_input_channels": D, "context_length": T, "prediction_length": H, "patch_length": 8, "patch_stride": 4}
    model = PatchTSTForPrediction(PatchTSTConfig(**shape, **size))
    trained(model, lambda m, x: m(past_values=x).prediction_outputs[..., 1], levels_missed, train)
    return Case(model, {"forward": "past_values", "task": "forecast", "target": (0, 1)}, train, test)


def levels_missed(forecast: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean squared error of forecasts (B, H) of channel 1."""
    return (forecast - (2 * y - 1)[:, None]).square().mean()


def tsai_inception(train: Series, test: Series) -> Case:
    """tsai's InceptionTime."""
    from tsai.models.InceptionTime import InceptionTime

    model = trained(InceptionTime(D, 2, nf=8), lambda m, x: m(first(x)), cross_entropy, train)
    return Case(model, {"layout": "BDT"}, train, test)


def tsai_patchtst(train: Series, test: Series) -> Case:
    """tsai's PatchTST, a forecaster: (B, D, T) -> (B, D, H)."""
    from tsai.models.PatchTST import PatchTST

    size = {"d_model": 32, "n_heads": 4, "d_ff": 64, "patch_len": 8, "stride": 4}
    model = trained(PatchTST(D, 2, T, pred_dim=H, **size), lambda m, x: m(first(x))[:, 1], levels_missed, train)
    return Case(model, {"layout": "BDT", "task": "forecast", "target": (1, 0)}, train, test)


def nhits(train: Series, test: Series) -> Case:
    """neuralforecast's NHITS for channel 1, the others being exogenous."""
    from neuralforecast.models import NHITS

    def call(model: nn.Module, x: torch.Tensor) -> Any:
        return model(defaultdict(lambda: None, insample_y=x[..., 1:2], insample_mask=x[..., :1] ** 0, hist_exog=x[..., ::2]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = NHITS(h=H, input_size=T, hist_exog_list=["a", "c"], mlp_units=[[64, 64]] * 3)
    trained(model, lambda m, x: call(m, x)[..., 0], levels_missed, train)
    return Case(model, {"forward": call, "task": "forecast", "target": 0}, train, test)
