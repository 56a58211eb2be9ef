"""ECG: beats of the MIT-BIH Arrhythmia Database, normal (N) against bundle branch block (L, R), with the QRS as truth.

One window of 360 samples (1 s) is centred on each annotated beat. A bundle branch block shows in the QRS complex. The truth of
an abnormal beat is therefore its QRS, found with neurokit2 on the whole record. Normal beats have no truth, since no single
part of a beat makes it normal.

Shapes: N beats, T = 360 samples of a window, n samples of a record.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from timex.data.prepare import (
    Arrays,
    Ints,
    Make,
    Origin,
    Prepared,
    counts,
    found,
    make_dataset,
    progress,
    read_compact,
    split_groups,
    split_samples,
)
from timex.records import Dataset

RATE = 360
"""Samples per second."""
WINDOW = 360
BEATS = tuple("NLRBAaJSVrFejnE/fQ?")  # PhysioNet's codes of beats; the other annotations mark rhythm and quality
KEPT = tuple("NLRAV")
ABNORMAL = tuple("LR")
QRS_SECONDS = (0.06, 0.24)
"""Shortest and longest plausible QRS; a block widens it to more than .12 s."""
QRS_HEIGHT = 0.25
"""Smallest plausible height, as a share of the record's median: where noise hides a beat, the search finds noise."""
SAME_PATIENT = {"202": "201"}
PUBLISHED = {"N": 75052, "L": 8075, "R": 7259, "V": 7130, "A": 2546}
"""Annotations of each kind in all 48 records."""


class Record(NamedTuple):
    """One record: its first lead in steps of the converter, and its annotations."""

    name: str
    signal: NDArray[np.int16]  # (n,)
    gain: float  # steps per mV
    zero: int  # the step that is 0 mV
    sample: Ints  # of every annotation
    symbol: NDArray[np.str_]  # of every annotation


# ------------------------------------------------------------------------------------------------------------- reading


def find(source: Path) -> list[Path]:
    """The files of every WFDB record under a source, or the one compact .npz of all records."""
    headers = found(source, "*.hea", "mitbih_lead0.npz")
    if not headers or headers[0].suffix not in (".hea", ".npz"):
        raise FileNotFoundError(f"{source} holds no WFDB record (.hea, .dat, .atr). To get them, {ECG.download}.")
    if headers[0].suffix == ".npz":
        return headers
    files = [header.with_suffix(suffix) for header in headers for suffix in (".hea", ".dat", ".atr")]
    listed = headers[0].parent / "RECORDS"
    if source.is_dir() and listed.is_file():
        named = [headers[0].parent / f"{name}.hea" for name in listed.read_text().split()]
        files += [path for path in named if path not in headers]
    if missing := [path.name for path in files if not path.is_file()]:
        raise FileNotFoundError(
            f"{source} lacks {', '.join(missing[:6])}{' ...' if len(missing) > 6 else ''}: download the whole record, or "
            "remove its files (and its line in RECORDS)."
        )
    _check_sums(headers[0].parent, files)
    return files


def _check_sums(folder: Path, files: list[Path]) -> None:
    """Compare the files with PhysioNet's list of SHA-256 sums, if the folder has it."""
    listed = folder / "SHA256SUMS.txt"
    if not listed.is_file():
        return
    lines = (line.split(maxsplit=1) for line in listed.read_text().splitlines() if line.strip())
    sums = {name.strip(): value for value, name in lines}
    for path in files:
        if path.name in sums and hashlib.sha256(path.read_bytes()).hexdigest() != sums[path.name]:
            raise ValueError(f"{path} is not the published file (its SHA-256 differs from SHA256SUMS.txt): download it again.")


def records(files: list[Path]) -> Iterable[Record]:
    """Every record of the files `find` gave."""
    if files[0].suffix == ".npz":
        yield from _compact_records(files[0])
        return
    for header in (path for path in files if path.suffix == ".hea"):
        yield _wfdb_record(header.with_suffix(""))


def _wfdb_record(stem: Path) -> Record:
    """The first lead of a WFDB record, checked against its header."""
    try:
        import wfdb
    except ImportError:
        raise ValueError("Reading WFDB records needs the wfdb package: pip install 'timex-explain[ecg]'.") from None

    def read(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return function(str(stem), *arguments, **options)
        except Exception as error:  # wfdb raises errors of many kinds without the name of the record
            raise ValueError(f"{stem} cannot be read as a WFDB record ({error}): download it again.") from None

    header = read(wfdb.rdheader)
    if header.fs != RATE:
        raise ValueError(
            f"Expected {stem.name} sampled at {RATE} Hz, got {header.fs} Hz: this is no MIT-BIH Arrhythmia record."
        )
    if set(header.fmt) == {"212"}:  # two samples in three bytes
        expected, size = header.sig_len * header.n_sig * 3 // 2, stem.with_suffix(".dat").stat().st_size
        if size < expected:
            raise ValueError(
                f"Expected {expected:,} bytes in {stem.name}.dat, got {size:,}: download it again, it is cut short."
            )
    record, annotation = read(wfdb.rdrecord, physical=False, channels=[0]), read(wfdb.rdann, "atr")
    if record.checksum is not None and record.calc_checksum() != record.checksum:
        raise ValueError(f"{stem.name}.dat does not match the checksum in its header: download it again.")
    sample, symbol = np.asarray(annotation.sample, dtype=np.int64), np.asarray(annotation.symbol)
    return Record(
        stem.name, record.d_signal[:, 0].astype(np.int16), record.adc_gain[0], int(record.baseline[0]), sample, symbol
    )


def _compact_records(path: Path) -> Iterable[Record]:
    """All records from one file of first differences."""
    needed = ("records", "first", "delta", "adc_gain", "adc_zero", "ann_sample", "ann_symbol", "ann_offset")
    z = read_compact(path, "MIT-BIH", needed)
    signal = z["first"].astype(np.int32)[:, None] + np.cumsum(z["delta"], axis=1, dtype=np.int32)
    for i, name in enumerate(z["records"]):
        part = slice(z["ann_offset"][i], z["ann_offset"][i + 1])
        sample, symbol = z["ann_sample"][part].astype(np.int64), z["ann_symbol"][part].astype(str)
        yield Record(str(name), signal[i].astype(np.int16), float(z["adc_gain"]), int(z["adc_zero"]), sample, symbol)


# --------------------------------------------------------------------------------------------------------- delineation


def qrs_intervals(ecg: NDArray[np.float64], peaks: Ints) -> Ints:
    """First and last sample of the QRS complex around every R peak, (N, 2); -1, -1 where no plausible one is found.

    The QRS begins at the R wave's onset as neurokit2's prominence method finds it, and ends with the S wave, whose end is the
    offset of an R wave in the signal turned upside down. Beats that point down (QS complexes) are turned upside down first.

    Args:
        ecg: A whole record in mV, (n,).
        peaks: Samples of all R peaks, in order, (N,).
    """
    try:
        import neurokit2 as nk
    except ImportError:
        raise ValueError("Finding QRS complexes needs the neurokit2 package: pip install 'timex-explain[ecg]'.") from None

    def waves(signal: NDArray[np.float64], at: Ints, *names: str) -> list[Ints]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="some peaks have a prominence of 0")  # those beats are turned over
            _, result = nk.ecg_delineate(signal, rpeaks=at, sampling_rate=RATE, method="prominence")
        columns = [np.nan_to_num(np.asarray(result[f"ECG_{name}"], dtype=np.float64), nan=-1) for name in names]
        assert all(len(column) == len(at) for column in columns)
        return [column.astype(np.int64) for column in columns]

    def upward(signal: NDArray[np.float64]) -> Ints:
        """The intervals, were all beats upward."""
        onset, trough = waves(signal, peaks, "R_Onsets", "S_Peaks")
        (end,) = waves(-signal, np.maximum(trough, peaks + 1), "R_Offsets")
        return np.stack([onset, np.where(trough < 0, -1, end)], axis=1)

    clean = nk.ecg_clean(ecg, sampling_rate=RATE)
    around = np.lib.stride_tricks.sliding_window_view(np.pad(clean, RATE // 5, mode="edge"), 2 * (RATE // 5) + 1)[peaks]
    up = clean[peaks] >= np.median(around, axis=1)  # (N,)
    interval = np.where(up[:, None], upward(clean), upward(-clean))
    seconds = (interval[:, 1] - interval[:, 0] + 1) / RATE
    inside = (interval[:, 0] <= peaks) & (peaks <= interval[:, 1])
    plausible = (interval >= 0).all(axis=1) & inside & (QRS_SECONDS[0] <= seconds) & (seconds <= QRS_SECONDS[1])
    height = np.array([np.ptp(clean[a : b + 1]) if ok else 0.0 for (a, b), ok in zip(interval, plausible, strict=True)])
    if plausible.any():
        plausible &= height >= QRS_HEIGHT * np.median(height[plausible])
    return np.where(plausible[:, None], interval, -1)


# ------------------------------------------------------------------------------------------------------------ the cache


def build(files: list[Path]) -> tuple[Arrays, dict[str, Any]]:
    """Signals, the beats whose window lies inside their record, and the QRS of the abnormal ones."""
    read = list(records(files))
    rows = []
    for record in progress(read, "finding QRS complexes"):
        whole = (record.sample >= WINDOW // 2) & (record.sample <= len(record.signal) - WINDOW // 2)
        beat = np.isin(record.symbol, BEATS) & whole
        sample, symbol = record.sample[beat], record.symbol[beat]
        qrs = np.full((len(sample), 2), -1)
        if np.isin(symbol, ABNORMAL).any():  # others have no truth
            qrs = qrs_intervals((record.signal.astype(np.float64) - record.zero) / record.gain, sample)
        kept = np.isin(symbol, KEPT)
        rows.append((sample[kept], symbol[kept], qrs[kept]))
    sample, symbol, qrs = (np.concatenate(column) for column in zip(*rows, strict=True))
    abnormal = np.isin(symbol, ABNORMAL)
    known = abnormal & (qrs[:, 0] >= 0)
    if not abnormal.any() or not (symbol == "N").any():
        raise ValueError(
            f"Expected normal (N) and abnormal (L, R) beats, got {counts(symbol)}: add records, for example 100, 109 and 118."
        )
    signal = np.concatenate([record.signal for record in read]).astype(np.int32)
    start = np.cumsum([0, *(len(record.signal) for record in read)])
    of_record = np.repeat(np.arange(len(read)), [len(s) for s, *_ in rows])
    arrays = {
        "record": np.array([record.name for record in read]),
        "gain": np.array([record.gain for record in read]),
        "zero": np.array([record.zero for record in read]),
        # First differences: half the size once compressed. Summing them up again gives the signals, one after another.
        "delta": np.diff(signal, prepend=0).astype(np.int16),
        "sample": sample + start[of_record],
        "of_record": of_record,
        "symbol": symbol.astype("S1"),
        # First and last sample in the window.
        "qrs": np.where(known[:, None], qrs - sample[:, None] + WINDOW // 2, -1).astype(np.int16),
    }
    annotated = counts(np.concatenate([record.symbol[np.isin(record.symbol, KEPT)] for record in read]))
    facts = {
        "records": len(read),
        "windows": counts(symbol),
        "qrs_found": {s: f"{(known & (symbol == s)).sum():,} of {(symbol == s).sum():,}" for s in ABNORMAL if s in symbol},
        "as_published": "yes" if annotated == PUBLISHED else "a subset" if len(read) < 48 else "no",
    }
    return arrays, facts


def _make(five: bool, by_patient: bool) -> Make:
    def make(arrays: Arrays, name: str, fold: int, seed: int) -> Dataset:
        symbol = arrays["symbol"].astype(str)
        chosen = np.flatnonzero(np.isin(symbol, KEPT if five else ("N", *ABNORMAL)))
        symbol = symbol[chosen]
        order = np.argsort(KEPT)
        code = order[np.searchsorted(KEPT, symbol, sorter=order)]
        y = code if five else (code > 0).astype(np.int64)
        of_record, sample, qrs = (arrays[n][chosen] for n in ("of_record", "sample", "qrs"))
        patient = np.array([SAME_PATIENT.get(r, r) for r in arrays["record"]])[of_record]
        index = split_groups(code, patient, fold, seed) if by_patient else split_samples(code, fold, seed)
        signal = np.cumsum(arrays["delta"], dtype=np.int32)

        def windows(i: Ints) -> tuple[NDArray[Any], NDArray[np.bool_]]:
            step = np.arange(WINDOW)
            steps = signal[sample[i, None] - WINDOW // 2 + step]  # (n, T)
            r = of_record[i, None]
            x = (steps - arrays["zero"][r]) / arrays["gain"][r]
            truth = (qrs[i, :1] <= step) & (step <= qrs[i, 1:])
            x = (x - x.mean(axis=1, keepdims=True)) / np.maximum(x.std(axis=1, keepdims=True), 1e-3)
            return x[:, :, None], truth[:, :, None]

        classes = ("normal", "left block", "right block", "atrial", "ventricular") if five else ("normal", "abnormal")
        return make_dataset(name, index, windows, y, ("lead 0",), classes, fold, seed, sampling_rate=RATE)

    return make


ECG = Origin(
    name="ecg",
    title="The MIT-BIH Arrhythmia Database",
    page="https://physionet.org/content/mitdb/1.0.0/",
    needs="the records (.hea, .dat and .atr of each; all 48 or some, best with SHA256SUMS.txt)",
    find=find,
    build=build,
)
LOADERS = (
    Prepared("ecg", ECG, _make(five=False, by_patient=False), (WINDOW, 1), 2, "split by beat, as the paper", truth=True),
    Prepared("ecg_by_patient", ECG, _make(five=False, by_patient=True), (WINDOW, 1), 2, "split by patient", truth=True),
    Prepared("ecg_five", ECG, _make(five=True, by_patient=False), (WINDOW, 1), 5, "N, L, R, A, V; split by beat", truth=True),
)
