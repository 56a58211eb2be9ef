"""What a test needs to look into a page: the scripts of the file, and the arrays packed into it."""

import base64
import json
import zlib
from html.parser import HTMLParser

import numpy as np


class _Scripts(HTMLParser):
    """Every script of a page by its id, as a browser would find it."""

    def __init__(self, text):
        super().__init__()
        self.found, self.tags, self.open = {}, [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "script":
            self.open = dict(attrs).get("id", "program")
            self.found[self.open] = ""

    def handle_data(self, data):
        if self.open is not None:
            self.found[self.open] += data

    def handle_endtag(self, tag):
        if tag == "script":
            self.open = None


def tags_of(path):
    return _Scripts(path.read_text()).tags


def _array(text, kind):
    raw = zlib.decompress(base64.b64decode(text))
    if kind == "uint16":  # low bytes first, then high bytes
        low, high = np.frombuffer(raw, dtype=np.uint8).reshape(2, -1).astype(np.uint16)
        return low + 256 * high
    return np.frombuffer(raw, dtype=kind)


def unpack(path):
    """The description of a page and its arrays, with bits and quantised values as they were."""
    scripts = _Scripts(path.read_text()).found
    meta = json.loads(scripts["meta"])
    arrays = {name: _array(scripts[f"array-{name}"], kind) for name, kind in meta["arrays"].items()}
    n, d, s = meta["count"], len(meta["channels"]), meta["columns"]
    shape = (n, d, s)

    def bits(name):
        return np.unpackbits(arrays[name], bitorder="little", count=n * d * s).reshape(shape).astype(bool)

    limits = arrays["range"].reshape(n, d, 2).astype(float)

    def value(q):
        return limits[..., :1] + q.reshape(shape) / meta["fine"] * (limits[..., 1:] - limits[..., :1])

    out = {"low": value(arrays["low"]), "high": value(arrays.get("high", arrays["low"])), "range": limits}
    out |= {name: bits(name) for name in arrays if name in ("observed", "truth") or name.startswith(("mask-", "against-"))}
    for j in range(len(meta["methods"])):
        low, high = arrays[f"scale-{j}"].astype(float).reshape(n, 2).T[:, :, None, None]
        out[f"attribution-{j}"] = low + arrays[f"attribution-{j}"].reshape(shape) / meta["levels"] * (high - low)
    out |= {name: arrays[name] for name in arrays if name not in out and not name.startswith("scale-")}
    out["place"] = arrays["place"].reshape(n, 2)
    out["nearest"] = arrays["nearest"].reshape(n, -1)
    return meta, out
