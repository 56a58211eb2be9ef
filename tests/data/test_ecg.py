"""ECG from WFDB files: windows, labels, QRS truth, splits, and files that are not as they should be."""

import shutil

import numpy as np
import pytest

from timex.data import load_dataset
from timex.data.ecg import ECG, RATE, WINDOW, qrs_intervals
from timex.data.prepare import prepare

wfdb = pytest.importorskip("wfdb")


def bump(n, at, seconds, height):
    return height * np.exp(-0.5 * ((np.arange(n) - at) / (seconds * RATE)) ** 2)


def beats(n, peaks, wide, upside_down=False, t_wave=0.2):
    """A flat line with an R, an S and a T wave at every peak; a block has an R and an S wave of twice the width."""
    signal = np.zeros(n)
    for at, broad in zip(peaks, wide, strict=True):
        width = 0.02 if broad else 0.01
        signal += bump(n, at, width, 1.2) + bump(n, at + 3.5 * width * RATE, width, -0.4)
        signal += bump(n, at + 0.3 * RATE, 0.04, t_wave)
    return -signal if upside_down else signal


def write_record(folder, name, symbols, seconds=14, fs=RATE, t_wave=0.2):
    """A WFDB record with one beat of each symbol every .8 s from .3 s on, and one note of rhythm."""
    n = seconds * RATE
    peaks = (0.3 * RATE + 0.8 * RATE * np.arange(len(symbols))).astype(int)
    mv = beats(n, peaks, [s in "LR" for s in symbols], t_wave=t_wave)
    steps = np.round(mv * 200 + 1024).astype(np.int64)
    wfdb.wrsamp(
        name,
        fs=fs,
        units=["mV", "mV"],
        sig_name=["MLII", "V5"],
        d_signal=np.stack([steps, np.full(n, 7)], axis=1),
        fmt=["212", "212"],
        adc_gain=[200.0, 200.0],
        baseline=[1024, 1024],
        write_dir=str(folder),
    )
    wfdb.wrann(name, "atr", np.concatenate([[5], peaks]), symbol=["+", *symbols], fs=fs, write_dir=str(folder))
    return peaks, steps


@pytest.fixture
def source(tmp_path):
    """Six patients: four normal ones, one with left and one with right blocks, a beat of other kinds in between."""
    folder = tmp_path / "mitdb"
    folder.mkdir()
    for name in ("100", "101", "103", "105"):
        write_record(folder, name, "N" * 15 + "V")
    write_record(folder, "109", "L" * 14 + "A")
    write_record(folder, "118", "R" * 14 + "/")
    return folder


# --------------------------------------------------------------------------------------------------------- delineation


@pytest.mark.parametrize("upside_down", [False, True])
def test_qrs_begins_before_the_r_wave_and_ends_after_the_s_wave(upside_down):
    n, peaks = 30 * RATE, (RATE * np.arange(1, 29)).astype(int)
    for wide, width in ((False, 0.01), (True, 0.02)):
        interval = qrs_intervals(beats(n, peaks, [wide] * len(peaks), upside_down), peaks)
        assert (interval[:, 0] >= 0).all()
        before = (peaks - interval[:, 0]) / RATE
        after = (interval[:, 1] - peaks) / RATE
        assert before.min() >= 2 * width  # the rise of the R wave
        assert before.max() <= 0.06
        assert after.min() >= 5 * width  # the S wave is centred 3.5 widths on
        assert after.max() <= 3.5 * width + 0.06


def test_a_qrs_that_cannot_be_believed_is_not_found():
    n, peaks = 20 * RATE, (RATE * np.arange(1, 19)).astype(int)
    signal = beats(n, np.delete(peaks, 7), [True] * 17) + np.random.default_rng(0).normal(0, 0.01, n)
    found = qrs_intervals(signal, peaks)[:, 0] >= 0
    assert found.tolist() == [i != 7 for i in range(18)]  # an annotation where there is no beat
    assert (qrs_intervals(np.zeros(n), peaks) == -1).all()


# ------------------------------------------------------------------------------------------------------------- windows


def test_windows_are_centred_on_their_beats(source, cache):
    facts, _ = prepare(ECG, source)
    # The first beat lies .3 s from the start: too near for a window of a second.
    assert facts["windows"] == {"A": 1, "L": 13, "N": 56, "R": 13, "V": 4}
    assert facts["qrs_found"] == {"L": "13 of 13", "R": "13 of 13"}
    assert facts["as_published"] == "a subset"
    data = load_dataset("ecg")
    assert data.classes == ("normal", "abnormal")
    assert {part.sampling_rate for part in (data.train, data.val, data.test)} == {360.0}  # plots show milliseconds
    x = np.concatenate([p.x for p in (data.train, data.val, data.test)])
    y = np.concatenate([p.y for p in (data.train, data.val, data.test)])
    truth = np.concatenate([p.truth for p in (data.train, data.val, data.test)])
    assert x.shape == (82, WINDOW, 1)
    assert np.bincount(y).tolist() == [56, 26]
    assert set(x[:, :, 0].argmax(axis=1)) == {WINDOW // 2}
    assert np.allclose(x.mean(axis=1), 0, atol=1e-5)
    assert np.allclose(x.std(axis=1), 1, atol=1e-4)
    assert (truth.any(axis=(1, 2)) == (y == 1)).all()
    assert truth[y == 1, WINDOW // 2].all()
    assert 0.1 * RATE < truth[y == 1].sum() / 26 < 0.24 * RATE


def test_five_classes(source, cache):
    prepare(ECG, source)
    data = load_dataset("ecg_five", fold=1)
    y = np.concatenate([p.y for p in (data.train, data.val, data.test)])
    assert np.bincount(y, minlength=5).tolist() == [56, 13, 13, 1, 4]


def test_no_patient_is_in_two_parts(source, cache):
    """Each record has a T wave of its own height, so that a window tells whose it is; 201 and 202 are one patient."""
    heights = {"100": 0.1, "101": 0.15, "103": 0.2, "105": 0.25, "109": 0.3, "118": 0.35, "201": 0.4, "202": 0.45}
    for name, height in heights.items():
        write_record(source, name, {"109": "L", "118": "R"}.get(name, "N") * 15, t_wave=height)
    prepare(ECG, source)
    names = np.array(list(heights))
    for fold in range(5):
        data = load_dataset("ecg_by_patient", fold=fold)
        whose = []
        for part in (data.train, data.val, data.test):
            x = part.x[:, :, 0]
            relative = (x[:, 288] - x[:, 100]) / (x[:, 180] - x[:, 100])  # T wave to R wave, against the flat line
            number = np.abs(relative[:, None] - np.array(list(heights.values())) / 1.2).argmin(axis=1)
            whose.append({"201" if n == "202" else str(n) for n in names[number]})
        assert sum(map(len, whose)) == len(set.union(*whose)) == 7


def test_the_second_preparation_is_the_first(source, cache):
    first, _ = prepare(ECG, source)
    assert prepare(ECG, source) == (first, False)


# ----------------------------------------------------------------------------------------------------------- bad input


def test_half_a_record_is_named(source, cache):
    (source / "109.atr").unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks 109\.atr: download the whole record"):
        prepare(ECG, source)
    assert not cache.exists()


def test_a_record_of_the_list_that_is_not_there_is_named(source, cache):
    (source / "RECORDS").write_text("100\n101\n102\n103\n105\n109\n118\n")
    with pytest.raises(FileNotFoundError, match=r"lacks 102\.hea"):
        prepare(ECG, source)


def test_a_truncated_dat_is_named_and_the_cache_untouched(source, cache):
    prepare(ECG, source)
    before = ECG.path.read_bytes()
    path = source / "118.dat"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ValueError, match=r"Expected 15,120 bytes in 118\.dat, got 5,000: download it again"):
        prepare(ECG, source)
    assert ECG.path.read_bytes() == before


def test_a_damaged_dat_is_named(source, cache):
    path = source / "118.dat"
    content = bytearray(path.read_bytes())
    content[3000] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"118\.dat does not match the checksum in its header"):
        prepare(ECG, source)


def test_a_foreign_header_is_named(source, cache):
    (source / "118.hea").write_text("this is no header\n")
    with pytest.raises(ValueError, match=r"118 cannot be read as a WFDB record"):
        prepare(ECG, source)
    assert not cache.exists()


def test_published_sums_are_checked(source, cache):
    (source / "SHA256SUMS.txt").write_text(f"{'0' * 64} 100.dat\n")
    with pytest.raises(ValueError, match=r"100\.dat is not the published file"):
        prepare(ECG, source)


def test_another_rate_and_other_beats_are_named(tmp_path, cache):
    write_record(tmp_path, "100", "N" * 10, fs=250)
    with pytest.raises(ValueError, match="Expected 100 sampled at 360 Hz, got 250"):
        prepare(ECG, tmp_path)
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    write_record(tmp_path, "100", "N" * 10)
    with pytest.raises(ValueError, match="Expected normal"):
        prepare(ECG, tmp_path)


def test_a_foreign_npz_is_named(tmp_path, cache):
    np.savez(tmp_path / "mitbih_lead0.npz", a=1)
    with pytest.raises(ValueError, match="is no compact MIT-BIH file: it lacks adc_gain"):
        prepare(ECG, tmp_path)


# ----------------------------------------------------------------------------------------------------------- real data


@pytest.mark.slow
def test_real_records(shared, tmp_path, cache):
    """Some records of the compact file, written as WFDB: both ways give the same, and blocks have wide QRS complexes."""
    names = ["100", "109", "118"]
    with np.load(shared / "mitbih_lead0.npz") as z:
        rows = [list(z["records"]).index(n) for n in names]
        steps = z["first"][rows].astype("i8")[:, None] + np.cumsum(z["delta"][rows], axis=1, dtype="i8")
        small = {n: z[n] for n in ("fs", "adc_gain", "adc_zero")}
        parts = [slice(z["ann_offset"][i], z["ann_offset"][i + 1]) for i in rows]
        sample, symbol = ([z[n][p] for p in parts] for n in ("ann_sample", "ann_symbol"))
        small |= {"records": np.array(names), "first": z["first"][rows], "delta": z["delta"][rows]}
    small |= {"ann_sample": np.concatenate(sample), "ann_symbol": np.concatenate(symbol)}
    small["ann_offset"] = np.cumsum([0, *map(len, sample)])
    np.savez(tmp_path / "mitbih_lead0.npz", **small)
    facts, _ = prepare(ECG, tmp_path / "mitbih_lead0.npz")
    compact = ECG.read()
    assert facts["qrs_found"]["L"] == "2,490 of 2,490"

    raw = tmp_path / "raw"
    raw.mkdir()
    for i, name in enumerate(names):
        wfdb.wrsamp(
            name,
            fs=360,
            units=["mV"],
            sig_name=["MLII"],
            d_signal=steps[i][:, None],
            fmt=["212"],
            adc_gain=[200.0],
            baseline=[1024],
            write_dir=str(raw),
        )
        wfdb.wrann(name, "atr", sample[i].astype("i8"), symbol=list(symbol[i].astype(str)), fs=360, write_dir=str(raw))
    assert prepare(ECG, raw)[1]
    for key, value in ECG.read().items():
        assert (value == compact[key]).all(), key

    milliseconds = (compact["qrs"][:, 1] - compact["qrs"][:, 0] + 1)[compact["qrs"][:, 0] >= 0] / RATE * 1000
    assert 120 < np.median(milliseconds) < 180  # a bundle branch block is wider than 120 ms
    data = load_dataset("ecg")
    assert data.train.x.shape[1:] == (360, 1)
