"""The models that are explained: four built-in architectures, and `adapt` for any other model."""

from timex.reference.adapt import adapt
from timex.reference.base import ReferenceModel, load_reference, save_reference
from timex.reference.cnn import CNN
from timex.reference.lstm import LSTM
from timex.reference.transformer import ResidualTransformer, Transformer

REFERENCES: dict[str, type[ReferenceModel]] = {
    "transformer": Transformer,
    "transformer_residual": ResidualTransformer,
    "cnn": CNN,
    "lstm": LSTM,
}

__all__ = [
    "CNN",
    "LSTM",
    "REFERENCES",
    "ReferenceModel",
    "ResidualTransformer",
    "Transformer",
    "adapt",
    "load_reference",
    "save_reference",
]
