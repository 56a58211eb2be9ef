"""The models being explained: three of our own, and `wrap` for any other `torch.nn.Module`."""

from timex.reference.base import ReferenceModel, load_reference, save_reference
from timex.reference.cnn import CNN
from timex.reference.lstm import LSTM
from timex.reference.transformer import Transformer

REFERENCES: dict[str, type[ReferenceModel]] = {"transformer": Transformer, "cnn": CNN, "lstm": LSTM}

__all__ = ["CNN", "LSTM", "REFERENCES", "ReferenceModel", "Transformer", "load_reference", "save_reference"]
