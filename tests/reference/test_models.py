"""The reference models against plain torch, hand-worked numbers and a naive attention mask."""

import json
import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn
from torch.func import functional_call

from timex import engine
from timex.engine import Noise
from timex.explainers.winit import Generator
from timex.nn.layers import DecoderLayer, mean_over_time, observed_steps, time_encoding
from timex.reference import CNN, LSTM, REFERENCES, Transformer, load_reference, save_reference
from timex.reference.base import build, initialised, weights_hash
from timex.reference.cnn import halve
from timex.reference.copies import copied
from timex.reference.lstm import backward_in_eval

B, T, D, C = 5, 11, 3, 4
SHAPE = {"n_channels": D, "n_classes": C, "n_steps": T}
TRANSFORMER = {"n_layers": 2, "d_hidden": 7}
SMALL = {
    "transformer": TRANSFORMER,
    "transformer_residual": TRANSFORMER,
    "cnn": {"width": 6},
    "lstm": {"hidden": 5, "n_layers": 2},
}


def randomised(module, seed=0):
    """The module in evaluation mode with every parameter random: a bias of 0 or a scale of 1 would hide a mistake."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(0.4 * torch.randn(p.shape, generator=g))
    return module.eval()


def model_of(arch, seed=0, **config):
    return randomised(build(arch, {**SHAPE, **SMALL[arch], **config}), seed)


def embedding(model, *arguments, **options):
    return model.output(*arguments, **options).z


def series(seed=0, n=B, t=T):
    return torch.randn(n, t, D, generator=torch.Generator().manual_seed(seed))


def some_observed():
    """Padding of another length in every sample, and cells that are missing in steps that are there: (B, T, D)."""
    observed = torch.ones(B, T, D, dtype=torch.bool)
    for i, length in enumerate([T, T - 1, T - 4, 3, 1]):
        observed[i, length:] = False
    observed[0, 2, 1] = observed[1, 5, :2] = False  # still measured steps
    observed[2, 0] = False  # a missing step in front
    return observed


def close(a, b, atol=2e-6):
    torch.testing.assert_close(a, b, atol=atol, rtol=1e-5)


def apart(a, b):
    """The largest difference within every sample, (B,)."""
    return (a - b).abs().flatten(1).amax(dim=1)


def encoded_by_hand(x, times=None):
    """[sin, cos of t / T^(k/7) ; x], one number at a time."""
    rows = []
    for i in range(len(x)):
        for j in range(x.shape[1]):
            t = j + 1 if times is None else times[i, j].item()
            angles = [t / T ** (k / 7) for k in range(8)]
            rows.append([*map(math.sin, angles), *map(math.cos, angles), *x[i, j].tolist()])
    return torch.tensor(rows).reshape(len(x), x.shape[1], -1)


# ------------------------------------------------------------------------------------------------- the transformer


def copy_attention(ours, theirs):
    with torch.no_grad():
        projections = (ours.q_proj, ours.k_proj, ours.v_proj)
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
    theirs.out_proj.load_state_dict(ours.out_proj.state_dict())


def copy_rest(ours, theirs, norms):
    for name in norms:
        getattr(theirs, name).load_state_dict(getattr(ours, name).state_dict())
    for name in ("linear1", "linear2"):
        getattr(theirs, name).load_state_dict(getattr(ours.feed_forward, name).state_dict())


def torch_encoder(model):
    """`torch.nn.TransformerEncoder` with the weights of ours."""
    config = model.config
    layer = nn.TransformerEncoderLayer(16 + D, nhead=1, dim_feedforward=config["d_hidden"], dropout=0.3, batch_first=True)
    encoder = nn.TransformerEncoder(layer, config["n_layers"], enable_nested_tensor=False).eval()
    for ours, theirs in zip(model.encoder.layers, encoder.layers, strict=True):
        copy_attention(ours.attention, theirs.self_attn)
        copy_rest(ours, theirs, ("norm1", "norm2"))
    return encoder


@pytest.mark.parametrize("n_layers", [1, 2])
@torch.no_grad()
def test_transformer_with_residuals_is_torchs_encoder(n_layers):
    model = model_of("transformer_residual", n_layers=n_layers)
    h = torch_encoder(model)(encoded_by_hand(series()))  # (B, T, M)
    close(model.encoder(series()), h)
    close(embedding(model, series()), h.mean(dim=1))


@pytest.mark.parametrize("n_layers", [1, 2])
@torch.no_grad()
def test_transformer_with_residuals_is_torchs_encoder_with_padding(n_layers):
    model, x, observed = model_of("transformer_residual", n_layers=n_layers), series(), some_observed()
    steps = observed.any(dim=2)
    h = torch_encoder(model)(encoded_by_hand(x), src_key_padding_mask=~steps)
    close(model.encoder(x, None, steps)[steps], h[steps])
    close(embedding(model, x, None, observed), torch.stack([h[i, steps[i]].mean(dim=0) for i in range(B)]))
    assert (apart(embedding(model, x, None, observed), embedding(model, x))[1:] > 1e-3).all()


@torch.no_grad()
def test_decoder_layer_is_torchs():
    width, d_hidden = 6, 9
    ours = randomised(DecoderLayer(width, d_hidden, rate=0.3))
    theirs = nn.TransformerDecoderLayer(width, nhead=1, dim_feedforward=d_hidden, dropout=0.3, batch_first=True).eval()
    copy_attention(ours.attention, theirs.self_attn)
    copy_attention(ours.cross, theirs.multihead_attn)
    copy_rest(ours, theirs, ("norm1", "norm2", "norm3"))
    g = torch.Generator().manual_seed(1)
    h, memory = torch.randn(2, B, T, width, generator=g)
    close(ours(h, memory, None, None), theirs(h, memory))
    padding = ~some_observed().any(dim=2)
    expected = theirs(h, memory, tgt_key_padding_mask=padding, memory_key_padding_mask=padding)
    close(ours(h, memory, padding, None)[~padding], expected[~padding])


def test_time_encoding_by_hand():
    code = time_encoding(torch.tensor([[1.0, 2.5], [0.0, 11.0]]), n_steps=11)
    assert code.shape == (2, 2, 16)
    close(code[0, 0, 0], torch.tensor(math.sin(1.0)))
    close(code[0, 1, 8], torch.tensor(math.cos(2.5)))
    close(code[0, 1, 3], torch.tensor(math.sin(2.5 / 11 ** (3 / 7))))
    close(code[1, 1, 7], torch.tensor(math.sin(1.0)))  # the slowest wave goes once around in 2 pi T
    close(code[1, 0], torch.tensor([0.0] * 8 + [1.0] * 8))


@torch.no_grad()
def test_times_count():
    model, x = model_of("transformer_residual"), series()
    times = torch.arange(1.0, T + 1).repeat(B, 1)
    assert torch.equal(embedding(model, x, times), embedding(model, x))  # 1..T is what None means
    times[1] = times[1] ** 1.1
    moved = embedding(model, x, times)
    close(moved, torch_encoder(model)(encoded_by_hand(x, times)).mean(dim=1))
    assert (apart(moved, embedding(model, x)) > 1e-3).tolist() == [False, True, False, False, False]


@torch.no_grad()
def test_steps_have_no_order_but_their_times():
    model, x, observed = model_of("transformer"), series(), some_observed()
    times = torch.arange(1.0, T + 1).repeat(B, 1)
    order = torch.randperm(T, generator=torch.Generator().manual_seed(3))
    close(embedding(model, x[:, order], times[:, order], observed[:, order]), embedding(model, x, times, observed))
    assert (apart(embedding(model, x[:, order], times), embedding(model, x, times)) > 1e-3).all()


def masked_by_hand(model, x, m):
    """Layer by layer with the (T, T) mask m m' after the softmax, as the paper's equation has it."""
    h = encoded_by_hand(x)
    for layer in model.encoder.layers:
        a = layer.attention
        q, k, v = (F.linear(h, p.weight, p.bias) for p in (a.q_proj, a.k_proj, a.v_proj))
        weights = torch.einsum("btm,bsm->bts", q, k).div(math.sqrt(16 + D)).softmax(dim=2)
        weights = weights * torch.einsum("bt,bs->bts", m, m)
        attended = a.out_proj(torch.einsum("bts,bsm->btm", weights, v))
        h = layer.norm1(h + attended if model.config["residual"] else attended)
        h = layer.norm2(h + layer.feed_forward.linear2(F.relu(layer.feed_forward.linear1(h))))
    return h.mean(dim=1)


@pytest.mark.parametrize("n_layers", [1, 2])
@pytest.mark.parametrize("arch", ["transformer", "transformer_residual"])
@torch.no_grad()
def test_attention_mask(arch, n_layers):
    model, x = model_of(arch, n_layers=n_layers), series()
    g = torch.Generator().manual_seed(2)
    soft = torch.rand(B, T, generator=g)
    for m in (soft, (soft > 0.5).float()):
        close(embedding(model, x, mask=m), masked_by_hand(model, x, m))
        assert (apart(embedding(model, x, mask=m), embedding(model, x)) > 1e-3).all()
    assert torch.equal(embedding(model, x, mask=torch.ones(B, T)), embedding(model, x))


def test_attention_mask_has_a_gradient():
    model, m = model_of("transformer"), torch.full((B, T), 0.5, requires_grad=True)
    embedding(model, series(), mask=m).pow(2).sum().backward()
    assert (m.grad.abs() > 0).all()


@torch.no_grad()
@pytest.mark.parametrize("gradient", [False, True])
def test_cudnn_is_left_as_the_user_set_it(monkeypatch, gradient):
    """A recurrent model whose gradient is taken does without cuDNN; no other setting changes, then or before."""
    names = ("enabled", "benchmark", "deterministic", "allow_tf32")
    for name, value in zip(names, (True, True, True, False), strict=True):
        monkeypatch.setattr(torch.backends.cudnn, name, value)
    with backward_in_eval(SimpleNamespace(requires_grad=gradient, is_cuda=True)):
        assert [getattr(torch.backends.cudnn, name) for name in names] == [not gradient, True, True, False]
    assert [getattr(torch.backends.cudnn, name) for name in names] == [True, True, True, False]


def test_normalised_embeddings_have_unit_length():
    plain, unit = model_of("transformer"), model_of("transformer", normalise=True)
    close(embedding(unit, series()).norm(dim=1), torch.ones(B))
    close(embedding(unit, series()), embedding(plain, series()) / embedding(plain, series()).norm(dim=1, keepdim=True))


# ------------------------------------------------------------------------------------------------- padding and means


def test_mean_over_time_by_hand():
    h = torch.tensor([[[1.0, 10.0], [3.0, 20.0], [8.0, 60.0]]] * 3)  # (3, 3, 2)
    observed = torch.tensor([[[1, 0], [0, 1], [0, 0]], [[1, 1], [1, 1], [1, 1]], [[0, 0], [0, 0], [0, 0]]], dtype=torch.bool)
    steps = observed_steps(observed)
    assert steps.tolist() == [[True, True, False], [True, True, True], [False, False, False]]
    close(mean_over_time(h, steps), torch.tensor([[2.0, 15.0], [4.0, 30.0], [0.0, 0.0]]))
    close(mean_over_time(h[:1], None), torch.tensor([[4.0, 30.0]]))
    assert observed_steps(None) is None


@torch.no_grad()
def test_padding_does_not_reach_the_transformers_embedding():
    model, x, observed = model_of("transformer"), series(), some_observed()
    padding = ~observed.any(dim=2)
    times = torch.arange(1.0, T + 1).repeat(B, 1)
    z = embedding(model, x, times, observed)
    other_x = torch.where(padding[:, :, None], 1e3 * series(seed=9), x)
    other_times = torch.where(padding, 77.0, times)
    close(embedding(model, other_x, other_times, observed), z)
    # a sample alone, cut to what was measured, says the same
    short = slice(0, T - 4)
    cut = embedding(model, x[2:3, short], times[2:3, short], observed[2:3, short])
    close(cut, z[2:3])
    unseen = embedding(model, x[:1], None, torch.zeros(1, T, D, dtype=torch.bool))
    assert torch.equal(unseen, torch.zeros(1, 16 + D))


@torch.no_grad()
def test_lstm_is_torchs_and_averages_the_measured_steps():
    model, x, observed = model_of("lstm"), series(), some_observed()
    h, _ = model.lstm(x)
    assert (h.shape, model.embedding_size) == ((B, T, 10), 10)
    close(embedding(model, x), h.mean(dim=1))
    steps = observed.any(dim=2)
    close(embedding(model, x, None, observed), torch.stack([h[i, steps[i]].mean(dim=0) for i in range(B)]))


def test_lstms_recurrent_layers_stay_in_training_mode():
    """cuDNN refuses their backward pass in evaluation mode; without dropout the mode changes no value."""
    model, x = model_of("lstm"), series()
    for mode in (False, True):
        holder = nn.ModuleList([model]).train(mode)
        assert (holder.training, model.training, model.head.training, model.lstm.training) == (mode, mode, mode, True)
    assert model.lstm.dropout == 0
    close(embedding(model.train(), x), embedding(model.eval(), x))


@torch.no_grad()
@pytest.mark.parametrize(
    "make",
    [lambda: LSTM(2, 3, 5, hidden=4, n_layers=1), lambda: copied(nn.GRU(2, 4, batch_first=True)), lambda: Generator(2, 3, 4)],
)
def test_weights_handed_to_a_recurrent_layer_stay_in_place(make, monkeypatch):
    """On a GPU torch moves them into one block of its own, away from the memory that the optimiser updates."""

    def move(layer):
        with torch.no_grad():
            for weight in layer._flat_weights:
                weight.set_(weight.clone())

    monkeypatch.setattr(nn.RNNBase, "flatten_parameters", move)
    model = make()
    params = {name: p.detach().clone() for name, p in model.named_parameters()}
    places = {name: p.data_ptr() for name, p in params.items()}
    functional_call(model, params, (torch.randn(2, 5, 2),))
    assert {name: p.data_ptr() for name, p in params.items()} == places


def test_cnn_is_torchs_and_averages_the_measured_windows():
    t = 27  # 13, 6, 3 after the pools: three windows of 8, three steps at the end are dropped
    model = model_of("cnn", n_steps=t)
    x = series(t=t)
    blocks = [layer for block in model.blocks for layer in (block, nn.ReLU(), nn.MaxPool1d(2))]
    h = nn.Sequential(*blocks)(x.transpose(1, 2))  # (B, W, 3)
    assert h.shape == (B, 6, 3)
    assert [block.kernel_size[0] for block in model.blocks] == [7, 3, 3]
    close(embedding(model, x), h.mean(dim=2))
    observed = torch.ones(B, t, D, dtype=torch.bool)
    observed[1, 16:] = observed[2, 17:] = observed[3, 1:] = observed[4, :] = False
    observed[0, 4, 1] = False  # the step is still measured
    observed[2, :7] = False  # and so is a window of which one step was, the eighth
    expected = [h[0].mean(1), h[1, :, :2].mean(1), h[2].mean(1), h[3, :, 0], torch.zeros(6)]
    close(embedding(model, x, None, observed), torch.stack(expected))


@pytest.mark.parametrize("length", [2, 7, 10])
def test_halve_is_max_pool(length):
    h = torch.randn(3, 4, length, generator=torch.Generator().manual_seed(0))
    assert torch.equal(halve(h), F.max_pool1d(h, 2))
    assert torch.equal(halve(h[0, 0]), F.max_pool1d(h[:1, 0], 2)[0])


# ----------------------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("arch", REFERENCES)
@torch.no_grad()
def test_output_is_the_embedding_and_the_heads_logits(arch):
    model, x, observed = model_of(arch), series(), some_observed()
    for rest in ((), (torch.linspace(1, 9, T).repeat(B, 1), observed)):
        z, logits = model.output(x, *rest)
        assert (z.shape, logits.shape) == ((B, model.embedding_size), (B, C))
        assert torch.equal(logits, model(x, *rest))
    first, _, last = model.head
    close(logits, F.relu(z @ first.weight.T + first.bias) @ last.weight.T + last.bias)
    # a sample does not depend on its batch
    close(embedding(model, x[2:3]), embedding(model, x)[2:3])


@torch.no_grad()
def test_dropout_comes_from_the_noise_alone():
    model, x = model_of("transformer", dropout=0.3), series()
    still = model(x)
    first, again, other = (model(x, noise=Noise(torch.tensor(key))) for key in (4, 4, 5))
    assert torch.equal(first, again)
    assert (apart(first, still) > 1e-4).all()
    assert (apart(first, other) > 1e-4).all()
    assert torch.equal(model.train()(x), still)  # the mode of the module is not what decides
    assert torch.equal(model_of("transformer", dropout=0.0)(x, noise=Noise(torch.tensor(4))), still)


@torch.no_grad()
def test_dropout_leaves_the_mean():
    layer = model_of("transformer", dropout=0.5).encoder.layers[0].feed_forward
    h = series()[:1, :1].repeat(1, 4000, 7)[:, :, : 16 + D]  # one step, 4,000 times
    drawn = layer(h, Noise(torch.tensor(1))).mean(dim=(0, 1))
    spread = layer(h, Noise(torch.tensor(1))).std(dim=(0, 1)) / math.sqrt(4000)
    assert ((drawn - layer(h, None)[0, 0]).abs() < 5 * spread + 1e-6).all()


@pytest.mark.parametrize("arch", ["transformer", "cnn"])
@torch.no_grad()
def test_stacked_models_are_the_loop(arch):
    models = [model_of(arch, seed=seed) for seed in range(3)]
    params = {name: torch.stack([dict(m.named_parameters())[name] for m in models]) for name, _ in models[0].named_parameters()}
    x = torch.stack([series(seed) for seed in range(3)])  # (K, B, T, D)
    observed = some_observed()
    keys = torch.tensor([7, 8, 9])

    def one(p, x, key):
        return functional_call(models[0], p, (x, None, observed), {"noise": Noise(key)})

    stacked = engine.stacked(one)(params, x, keys)
    close(stacked, torch.stack([m(x[k], None, observed, noise=Noise(keys[k])) for k, m in enumerate(models)]), atol=1e-5)
    if arch == "transformer":
        masks = torch.rand(3, B, T, generator=torch.Generator().manual_seed(0))
        stacked = engine.stacked(lambda p, x, m: functional_call(models[0], p, (x,), {"mask": m}))(params, x, masks)
        close(stacked, torch.stack([m(x[k], mask=masks[k]) for k, m in enumerate(models)]), atol=1e-5)


def test_which_models_can_be_stacked_and_masked():
    assert {arch: (cls.stackable, cls.attention) for arch, cls in REFERENCES.items()} == {
        "transformer": (True, True),
        "transformer_residual": (True, True),
        "cnn": (True, False),
        "lstm": (False, False),
    }


@pytest.mark.parametrize(("cls", "name"), [(CNN, "CNN"), (LSTM, "LSTM")])
def test_models_without_attention_refuse_its_mask(cls, name):
    with pytest.raises(ValueError, match=rf"^The {name} has no attention to mask: mask the values instead\.$"):
        cls(**SHAPE).output(series(), mask=torch.ones(B, T))


def test_cnn_refuses_short_series():
    assert CNN(D, C, n_steps=8, width=2)(series(t=8)).shape == (B, C)
    with pytest.raises(ValueError, match=r"^Expected at least 8 time steps for the CNN, got 7\.$"):
        CNN(D, C, n_steps=7)


def test_initial_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = initialised("cnn", {**SHAPE, "width": 4}, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    hashes = [weights_hash(initialised("cnn", {**SHAPE, "width": 4}, seed)) for seed in (3, 4)]
    assert weights_hash(first) == hashes[0] != hashes[1]


# ------------------------------------------------------------------------------------------------ saving and loading


@pytest.mark.parametrize("arch", REFERENCES)
@torch.no_grad()
def test_saved_models_come_back_bit_by_bit(arch, tmp_path):
    model = model_of(arch).train()
    folder = save_reference(model, tmp_path / "runs" / "one", dataset="mine", seed=3)
    loaded = load_reference(folder)
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    assert not loaded.training
    state = model.state_dict()
    assert state.keys() == loaded.state_dict().keys()
    assert all(torch.equal(state[name], value) for name, value in loaded.state_dict().items())
    assert torch.equal(loaded(series()), model(series()))
    facts = json.loads((folder / "reference.json").read_text())
    assert (facts["hash"], facts["arch"], facts["dataset"], facts["seed"]) == (weights_hash(model), arch, "mine", 3)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"holds no reference: reference\.json is missing\. .* `timex train` write one"):
        load_reference(tmp_path)


def test_tampered_weights_are_refused(tmp_path):
    (path,) = save_reference(model_of("cnn"), tmp_path).glob("*.safetensors")
    weights = load_file(path)
    weights["head.2.bias"][1] += 1e-6
    save_file(weights, path)
    with pytest.raises(ValueError, match=rf"{path.name} is damaged: its SHA-256 is not the one that reference\.json holds"):
        load_reference(tmp_path)


def test_unknown_architectures_list_the_known(tmp_path):
    model = model_of("cnn")
    model.arch = "rnn"
    save_reference(model, tmp_path)
    with pytest.raises(ValueError, match=r"Unknown architecture 'rnn'; known: transformer, transformer_residual, cnn, lstm\.$"):
        load_reference(tmp_path)


def test_the_hash_sees_every_weight():
    model = nn.Sequential(Transformer(**SHAPE, d_hidden=2), nn.BatchNorm1d(C))  # buffers count too
    hashes = [weights_hash(model)]
    assert weights_hash(model) == hashes[0]
    for value in model.state_dict().values():
        flat = value.view(-1)
        for i in {0, flat.numel() - 1}:
            kept = flat[i].item()
            flat[i] += 1
            hashes.append(weights_hash(model))
            flat[i] = kept
    assert len(set(hashes)) == len(hashes)
    assert weights_hash(model) == hashes[0]
    renamed = nn.ModuleDict({"a": nn.Linear(2, 3)}), nn.ModuleDict({"b": nn.Linear(2, 3)})
    renamed[1]["b"].load_state_dict(renamed[0]["a"].state_dict())
    assert weights_hash(renamed[0]) != weights_hash(renamed[1])
    with torch.no_grad():  # the same bytes in another shape
        flat, tall = nn.Embedding(1, 6), nn.Embedding(6, 1)
        tall.weight.copy_(flat.weight.reshape(6, 1))
    assert weights_hash(flat) != weights_hash(tall)
