"""It explains the model, and not the data: slow tests on fitted explainers. Run with -s to see the figures."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter1d
from scipy.stats import spearmanr
from torch import nn

from timex import TimeX, TimeXConfig, load_dataset
from timex.data.synthetic import check_part
from timex.explainers import Amplitude, IntegratedGradients
from timex.metrics import ground_truth_scores
from timex.records import Series
from timex.reference import CNN
from timex.reference.train import preset, train_references

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def freqshapes():
    return load_dataset("freqshapes")


def auprc(explanation, truth):
    return float(np.nanmean(ground_truth_scores(explanation.attribution, truth)["auprc"]))


def fitted(model, x, x_val, embedding=None, pool=None, **settings):
    explainer = TimeX(model, embedding, TimeXConfig(**settings), pool=pool, device="cpu")
    return explainer.fit(x, x_val=x_val, progress=False)


# ------------------------------------------------------------------------------------ models written by somebody else


class UserTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(1, 16)
        self.place = nn.Parameter(torch.randn(50, 16) * 0.1)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.body(self.lift(x) + self.place).mean(dim=1))


class UserCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            *(nn.Conv1d(1, 32, 7, padding=3), nn.BatchNorm1d(32), nn.ReLU(), nn.MaxPool1d(2)),
            *(nn.Conv1d(32, 32, 5, padding=2), nn.ReLU(), nn.MaxPool1d(2)),
        )
        self.pool = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x):
        return self.head(self.pool(self.body(x.transpose(1, 2))))


class UserGRU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 4)

    def forward(self, x):
        h, _ = self.gru(x)
        return self.head(h.mean(dim=1))


def trained_by_hand(model, part, epochs):
    """The loop a user would write."""
    torch.manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = torch.as_tensor(part.x), torch.as_tensor(part.y)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.eval()


def own(arch, data, epochs, **model):
    config = replace(preset("freqshapes", arch), epochs=epochs)
    config = replace(config, model=model or config.model)
    return train_references([data], arch, config, progress=False)[0].model


USERS = {  # class, layer, epochs of training
    "transformer": (UserTransformer, "body", 12),
    "cnn": (UserCNN, "pool", 4),
    "gru": (UserGRU, "gru", 6),
}


@pytest.mark.parametrize("kind", USERS)
def test_a_users_own_model_is_explained_as_well_as_ours(freqshapes, kind):
    cls, layer, epochs = USERS[kind]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = trained_by_hand(cls(), freqshapes.train, epochs)
    x = torch.as_tensor(freqshapes.test.x)
    accuracy = (model(x).argmax(-1) == torch.as_tensor(freqshapes.test.y)).float().mean().item()
    before = copy.deepcopy(model.state_dict())
    explainer = fitted(model, freqshapes.train.x, freqshapes.val.x, layer)
    theirs = auprc(explainer.explain(x), freqshapes.test.truth)
    print(f"\n{kind}: user's model, accuracy {accuracy:.3f}, AUPRC {theirs:.3f}", end="")
    assert accuracy > 0.9
    assert all(torch.equal(v, model.state_dict()[k]) for k, v in before.items())
    assert theirs >= 0.75
    if kind == "cnn":  # the same kind of model from our own classes
        ours = fitted(own("cnn", freqshapes, 4, width=32), freqshapes.train.x, freqshapes.val.x)
        same = auprc(ours.explain(x), freqshapes.test.truth)
        print(f"; ours {same:.3f}")
        assert theirs >= same - 0.05


# ----------------------------------------------------------------------------------------------- the model, not the data


def test_equal_amplitudes_do_not_hide_what_the_model_uses():
    data = load_dataset("equalshapes")
    config = replace(preset("equalshapes", "cnn"), epochs=25, model={"width": 64})
    reference = train_references([data], "cnn", config, progress=False)[0]
    part = check_part("equalshapes")
    explainer = fitted(reference.model, data.train.x, data.val.x)
    ours = auprc(explainer.explain(part.x), part.truth)
    amplitude = auprc(Amplitude(reference.model).explain(part.x), part.truth)
    ig = IntegratedGradients(reference.model).explain(part.x)
    absolute = auprc(replace(ig, attribution=np.abs(ig.attribution)), part.truth)
    print(
        f"\nequalshapes: CNN F1 {reference.check['f1']:.3f}; TimeX {ours:.3f}, amplitude {amplitude:.3f}, |IG| {absolute:.3f}"
    )
    assert reference.check["f1"] > 0.95
    assert ours >= amplitude + 0.2
    assert ours > absolute


def ramps_on_a_smooth_background(n, seed):
    """A rising ramp of 16 steps, a falling one or none in the place of a smooth signal of 120: x, labels and truth."""
    rng = np.random.default_rng(seed)
    x = gaussian_filter1d(rng.normal(size=(n, 184)), 8, axis=1)[:, 32:152]
    x /= x.std()
    y, cells = np.arange(n) % 3, (np.arange(n)[:, None], rng.integers(5, 99, n)[:, None] + np.arange(16))
    x[cells] = np.where(y[:, None] == 2, x[cells], np.array([1, -1, 0])[y][:, None] * np.linspace(-2, 2, 16))
    truth = np.zeros(x.shape, dtype=bool)
    truth[cells] = (y < 2)[:, None]
    return x[:, :, None].astype(np.float32), y, truth[:, :, None]


def test_smooth_signals_are_explained():
    """Sampled masks cut them into spikes, which the model does not know; half of the training samples are blended."""
    (x, y, _), (x_val, *_), (x_test, _, truth) = map(ramps_on_a_smooth_background, (1500, 200, 300), range(3))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = trained_by_hand(UserCNN(), Series(x, y=y), 6)
    explainer = fitted(model, x, x_val, "pool")
    explanation = explainer.explain(x_test)
    ours = auprc(explanation, truth)
    ig = IntegratedGradients(model).explain(x_test)
    absolute = auprc(replace(ig, attribution=np.abs(ig.attribution)), truth)
    agreement = explanation.agreement.mean()
    smoothing = explainer.fitted.smoothing
    print(f"\nramps, smoothing {smoothing}: TimeX {ours:.3f}, |IG| {absolute:.3f}, agreement {agreement:.3f}")
    assert ours > absolute + 0.1
    assert agreement > 0.8


class OneEyed(nn.Module):
    """Sees the first of two channels that say the same."""

    def __init__(self, seeing):
        super().__init__()
        self.seeing = seeing

    def forward(self, x):
        return self.seeing(x[:, :, :1])


def test_a_model_blind_to_one_channel_is_explained_by_the_other(freqshapes):
    rng = np.random.default_rng(0)

    def doubled(part):  # both channels carry the spikes, each under noise of its own
        again = part.x + rng.normal(0, 0.25, part.x.shape).astype(np.float32)
        return np.concatenate([part.x, again], axis=2)

    seeing = own("cnn", freqshapes, 4, width=32)
    model = OneEyed(seeing).eval()
    explainer = fitted(model, doubled(freqshapes.train), doubled(freqshapes.val), "seeing.blocks.2", pool=2)
    x = doubled(freqshapes.test)
    truth = np.concatenate([freqshapes.test.truth, np.zeros_like(freqshapes.test.truth)], axis=2)
    explanation = explainer.explain(x)
    seen, unseen = (explanation.attribution[..., k][freqshapes.test.truth[..., 0]].mean() for k in (0, 1))
    score = auprc(explanation, truth)
    ig = IntegratedGradients(model).explain(x)
    absolute = auprc(replace(ig, attribution=np.abs(ig.attribution)), truth)
    print(f"\nspikes seen {seen:.3f}, unseen {unseen:.3f}; AUPRC on the seen channel {score:.3f}, |IG| {absolute:.3f}")
    assert seen > 2 * unseen
    assert score >= 0.75


def test_explanations_depend_on_the_models_weights(freqshapes):
    trained = own("cnn", freqshapes, 4, width=32)
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(1)
    random = CNN(1, 4, 50, width=32)
    torch.random.set_rng_state(torch_state)
    x, val = freqshapes.train.x, freqshapes.val.x
    with torch.no_grad():  # or it would predict one class for everything
        random.head[-1].bias.sub_(random(torch.as_tensor(x[:500])).mean(dim=0))
    a, b, again = (fitted(m, x, val).explain(freqshapes.test.x).attribution for m in (trained, random, trained))
    rank = [
        float(np.nanmean([spearmanr(p.ravel(), q.ravel()).statistic for p, q in zip(a, o, strict=True)])) for o in (b, again)
    ]
    print(f"\nrank correlation with a weight-randomised model's explanations {rank[0]:.3f}, with a second fit {rank[1]:.3f}")
    assert rank[1] == pytest.approx(1.0)
    assert rank[0] < 0.9
