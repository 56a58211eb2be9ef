"""Foreign modules as reference models: what a hook would give, clear errors, and a module left as it was."""

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call

from timex.engine import Noise
from timex.reference import adapt

B, T, D, C = 5, 11, 3, 4


def series(n=B, t=T):
    return torch.randn(n, t, D, generator=torch.Generator().manual_seed(0))


# ------------------------------------------------------------------------------------------ modules as users write them


class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(D, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True), 2)
        self.head = nn.Linear(8, C)

    def forward(self, x):
        return self.head(self.encoder(self.embed(x)).mean(dim=1))


class Convolutional(nn.Module):
    """Channels first inside, batch norm and dropout; `conv` gives (B, 9, T), `squeeze` (B, 9)."""

    def __init__(self, width=9):
        super().__init__()
        self.conv = nn.Conv1d(D, width, 3, padding=1)
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.4)
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.head = nn.Linear(width, C)
        self.spare = nn.Linear(2, 2)

    def forward(self, x):
        h = self.drop(self.norm(self.conv(x.transpose(1, 2))).relu())
        return self.head(self.squeeze(h))


class Recurrent(nn.Module):
    def __init__(self, batch_first=True):
        super().__init__()
        self.gru = nn.GRU(D, 6, batch_first=batch_first)
        self.head = nn.Linear(6, C)

    def forward(self, x):
        h, _ = self.gru(x if self.gru.batch_first else x.transpose(0, 1))
        return self.head(h[:, -1] if self.gru.batch_first else h[-1])


class Named(nn.Module):
    def forward(self, x):
        return {"all": x, "last": x[:, -1]}


class Several(nn.Module):
    """Layers that return a tuple and a dict, and a layer that is used twice."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(D, 1, batch_first=True)
        self.named = Named()
        self.shared = nn.Linear(D, D)
        self.head = nn.Linear(D, C)

    def forward(self, x):
        h, _ = self.attend(x, x, x)
        return self.head(self.shared(self.shared(self.named(h)["last"])))


class Flat(nn.Module):
    """Logits are whatever `shape` makes of (B, T * D)."""

    def __init__(self, reply):
        super().__init__()
        self.inner, self.reply = nn.Linear(T * D, 7), reply

    def forward(self, x):
        return self.reply(self.inner(x.flatten(1)))


def wrapped_at(module, layer, x, **how):
    return adapt(module, x, embedding=layer, **how)


MODULES = {"attentive": Attentive, "convolutional": Convolutional, "recurrent": Recurrent, "several": Several}


def made(name, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = MODULES[name]()
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm1d):  # statistics that are not those of the batch
                layer.running_mean.normal_()
                layer.running_var.uniform_(0.5, 2)
    return module


def by_hook(module, layer, x):
    """Every output of a layer in evaluation mode, and the logits, from a copy with a hook of our own."""
    twin, caught = copy.deepcopy(module).eval(), []
    twin.get_submodule(layer).register_forward_hook(lambda m, i, out: caught.append(out))
    with torch.no_grad():
        logits = twin(x)
    return caught, logits


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


# ----------------------------------------------------------------------------------------------------- the embedding


@pytest.mark.parametrize(
    ("name", "layer", "reduce", "size"),
    [
        ("attentive", "encoder", lambda out: out.mean(dim=1), 8),  # (B, T, Z)
        ("attentive", "encoder.layers.0", lambda out: out.mean(dim=1), 8),
        ("convolutional", "conv", lambda out: out.mean(dim=2), 9),  # (B, Z, T)
        ("convolutional", "norm", lambda out: out.mean(dim=2), 9),
        ("convolutional", "squeeze", lambda out: out, 9),  # (B, Z)
        ("recurrent", "gru", lambda out: out[0].mean(dim=1), 6),  # a tuple: the states of all steps
        ("several", "shared", lambda out: out, D),
    ],
)
@torch.no_grad()
def test_embedding_is_what_a_hook_gives(name, layer, reduce, size):
    module, x = made(name), series()
    wrapped = wrapped_at(module, layer, x[:2])
    caught, logits = by_hook(module, layer, x)
    out = wrapped.output(x)
    assert out.z.shape == (B, size)
    close(out.z, reduce(caught[-1]))
    close(out.logits, logits)
    assert torch.equal(wrapped.output(x).z, out.z)
    assert torch.equal(wrapped(x), out.logits)
    sizes = (wrapped.n_steps, wrapped.n_channels, wrapped.n_classes, wrapped.embedding_size)
    assert sizes == (T, D, C, size)


@torch.no_grad()
def test_a_layer_used_twice_counts_where_it_is_used_last():
    module, x = made("several"), series()
    (first, last), _ = by_hook(module, "shared", x)
    assert (first - last).abs().max() > 0.01
    close(wrapped_at(module, "shared", x).output(x).z, last)


@torch.no_grad()
def test_output_and_pool_say_what_to_take():
    module, x = made("several"), series()
    (attended, weights), _ = by_hook(module, "attend", x)[0][-1], None
    close(wrapped_at(module, "attend", x, embedding_output=0).output(x).z, attended.mean(dim=1))
    close(
        wrapped_at(module, "attend", x, embedding_output=1, pool=2).output(x).z, weights.mean(dim=2)
    )  # (B, T, T) has two axes of T
    close(
        wrapped_at(module, "attend", x, embedding_output=lambda out: out[0], pool=lambda h: h[:, 3]).output(x).z, attended[:, 3]
    )
    close(wrapped_at(module, "named", x, embedding_output="last").output(x).z, attended[:, -1])
    recurrent = made("recurrent")
    (_, state) = by_hook(recurrent, "gru", x)[0][-1]
    close(wrapped_at(recurrent, "gru", x, embedding_output=1, pool=0).output(x).z, state[0])  # the last state, (1, B, Z)


@torch.no_grad()
def test_time_first_layers_need_a_pool():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = Recurrent(batch_first=False)
    x = series()
    with pytest.raises(ValueError, match=r"has shape \(11, 5, 6\) for x of shape \(5, 11, 3\).* reduce it with pool="):
        wrapped_at(module, "gru", x)
    close(wrapped_at(module, "gru", x, pool=0).output(x).z, by_hook(module, "gru", x)[0][-1][0].mean(dim=0))


# ------------------------------------------------------------------------------------------------------------ errors


def test_an_ambiguous_time_axis_asks_for_pool():
    module = Convolutional(width=T)
    text = (
        r"^Output of layer 'conv' has shape \(5, 11, 11\) for x of shape \(5, 11, 3\), which has no single time axis .* pool="
    )
    with pytest.raises(ValueError, match=text):
        wrapped_at(module, "conv", series())
    assert wrapped_at(module, "conv", series(), pool=2).embedding_size == T


class Doubled(nn.Module):
    def forward(self, x):
        return torch.stack([x, -x], dim=2)  # (B, T, 2, D)


def test_no_time_axis_asks_for_pool():
    module = nn.Sequential(Doubled(), nn.Flatten(), nn.Linear(2 * T * D, C))
    with pytest.raises(ValueError, match=r"^Output of layer '0' has shape \(5, 11, 2, 3\) .*pool="):
        wrapped_at(module, "0", series())
    text = r"^Expected an embedding of shape \(B, Z\), got \(5, 2, 3\) from the output of layer '0': reduce it with pool=\.$"
    with pytest.raises(ValueError, match=text):
        wrapped_at(module, "0", series(), pool=1)


@torch.no_grad()
def test_axes_of_length_1_are_dropped():
    module, x = nn.Sequential(nn.Unflatten(2, (1, D)), nn.Flatten(), nn.Linear(T * D, C)), series()
    close(wrapped_at(module, "0", x).output(x).z, x.mean(dim=1))  # (B, T, 1, D)


def test_several_tensors_ask_for_output():
    text = (
        r"^Layer 'attend' returns tuple with 0 \(5, 11, 3\), 1 \(5, 11, 11\), not one tensor: .* embedding_output= \(an index"
    )
    with pytest.raises(ValueError, match=text):
        wrapped_at(made("several"), "attend", series())
    with pytest.raises(
        ValueError, match=r"^Layer 'named' returns dict with all .*, not one tensor: choose one with embedding_output="
    ):
        wrapped_at(made("several"), "named", series())


def test_a_wrong_layer_lists_near_misses():
    module = made("attentive")
    with pytest.raises(ValueError, match=r"^The model has no layer 'encodr'\. Did you mean 'encoder'"):
        wrapped_at(module, "encodr", series())
    with pytest.raises(ValueError, match=r"^The model has no layer 'zzz'\. Its layers: embed, encoder, encoder\.layers, "):
        wrapped_at(module, "zzz", series())
    with pytest.raises(ValueError, match=r"^The model has no layer ''\."):  # the whole module is not one of its layers
        wrapped_at(module, "", series())
    with pytest.raises(ValueError, match=r"Its layers: none\.$"):
        wrapped_at(nn.Identity(), "x", series())


def test_a_layer_that_does_not_run():
    with pytest.raises(ValueError, match=r"^Layer 'spare' did not run in the model's forward pass: name one that does\.$"):
        wrapped_at(made("convolutional"), "spare", series())


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (lambda h: h.mean(dim=1), r"Expected logits of at least 2 classes, got a tensor of shape \(5,\): pass task='binary'"),
        (lambda h: h[:, :1], r"Expected logits of at least 2 classes, got a tensor of shape \(5, 1\): pass task='binary'"),
        (
            lambda h: h[:, None],
            r"return logits of shape \(B, C\) for x of shape \(5, 11, 3\), got a tensor of shape \(5, 1, 7\)",
        ),
        (lambda h: h[:-1], r"Expected one answer for each of 5 series of shape \(5, 11, 3\), got a tensor of shape \(4, 7\)"),
        (
            lambda h: (h, h, h),
            r"Expected one tensor with the model's answer, got tuple with 0 \(5, 7\), 1 \(5, 7\), 2 \(5, 7\)",
        ),
        (lambda h: None, r"Expected one tensor with the model's answer, got NoneType"),
    ],
)
def test_logits_of_a_wrong_shape(reply, text):
    with pytest.raises(ValueError, match=text):
        wrapped_at(Flat(reply), "inner", series())


def test_no_attention_mask():
    wrapped = wrapped_at(made("attentive"), "encoder", series())
    with pytest.raises(ValueError, match=r"^A wrapped model takes no attention mask: mask the values instead\.$"):
        wrapped.output(series(), mask=torch.ones(B, T))
    assert not wrapped.stackable
    assert not wrapped.attention


def test_a_failing_forward_leaves_no_hook():
    wrapped = wrapped_at(made("convolutional"), "conv", series())
    with pytest.raises(RuntimeError, match="channels"):
        wrapped.output(torch.zeros(B, T, D + 1))
    assert not wrapped.module.conv._forward_hooks


# ------------------------------------------------------------------------------------------------ nothing is disturbed


def fingerprint(module):
    """All that could be changed in a module: bytes, modes, gradient flags, gradients and hooks."""
    state = {name: (value.data_ptr(), value.numpy().tobytes()) for name, value in module.state_dict().items()}
    modes = {name: layer.training for name, layer in module.named_modules()}
    flags = {name: (p.requires_grad, p.grad) for name, p in module.named_parameters()}
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    hooks = {(name, kind): dict(getattr(layer, kind)) for name, layer in module.named_modules() for kind in kinds}
    return state, modes, flags, hooks


@pytest.mark.parametrize(
    ("name", "layer"), [("attentive", "encoder"), ("convolutional", "conv"), ("recurrent", "gru"), ("several", "shared")]
)
def test_the_users_module_is_untouched(name, layer):
    module, seen = made(name).train(), []
    module.head.eval()  # a mode that is not the same everywhere
    module.head.bias.requires_grad_(False)
    module.get_submodule(layer).register_forward_hook(lambda *_: seen.append("forward"))
    module.head.register_forward_pre_hook(lambda *_: seen.append("pre"))
    module.head.register_full_backward_hook(lambda *_: seen.append("backward"))
    module.head.register_full_backward_pre_hook(lambda *_: seen.append("backward pre"))
    before = fingerprint(module)

    x = series().requires_grad_()
    wrapped = wrapped_at(module, layer, x.detach())
    wrapped.output(x).logits.sum().backward()
    wrapped.output(x, noise=Noise(torch.tensor(1)))
    wrapped.train()
    wrapped.requires_grad_(True)
    wrapped.output(x).logits.sum().backward()
    with torch.no_grad():
        for p in wrapped.parameters():
            p.add_(1)

    assert fingerprint(module) == before
    assert seen == []  # the copy does not call the user's hooks
    assert not any(hooks for twin in wrapped.modules() for hooks in (twin._forward_hooks, twin._forward_pre_hooks))
    assert not any(hooks for twin in wrapped.modules() for hooks in (twin._backward_hooks, twin._backward_pre_hooks))


@torch.no_grad()
def test_hooks_that_make_weights_are_kept():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = made("convolutional")
        module.head = nn.utils.spectral_norm(module.head)  # the weight is made by a hook of torch before every pass
        module.eval()
        module.head.weight_orig.mul_(3)
    x = series()
    logits = wrapped_at(module, "conv", x)(x)
    close(logits, by_hook(module, "conv", x)[1])


def test_the_copy_is_frozen_and_in_evaluation_mode():
    module = made("convolutional").train()
    wrapped = wrapped_at(module, "conv", series())
    assert not any(layer.training for layer in wrapped.module.modules())
    assert not any(p.requires_grad for p in wrapped.parameters())
    assert torch.equal(wrapped(series()), wrapped(series()))  # no dropout
    with torch.no_grad():  # later changes of the user's module do not reach the copy
        before = wrapped(series())
        module.head.weight.zero_()
    assert torch.equal(wrapped(series()), before)


def test_gradients_reach_the_input_and_given_weights():
    module, x = made("convolutional"), series().requires_grad_()
    wrapped = wrapped_at(module, "conv", x.detach())
    twin = copy.deepcopy(module).eval()
    (ours,) = torch.autograd.grad(wrapped(x).square().sum(), x)
    (theirs,) = torch.autograd.grad(twin(x).square().sum(), x)
    close(ours, theirs)
    params = {name: (2 * p).requires_grad_() for name, p in wrapped.named_parameters()}
    z = functional_call(wrapped, params, (series(),))
    assert (z - wrapped(series())).abs().max() > 1e-3
    grads = torch.autograd.grad(z.square().sum(), [params["module.conv.weight"], params["module.norm.weight"]])
    assert all(g.abs().max() > 0 for g in grads)


@pytest.mark.parametrize("mode", [None, "train", "eval"])
@torch.no_grad()
def test_training_passes_drop_out_and_leave_the_running_statistics(mode):
    x, module = series(), made("convolutional")
    wrapped = wrapped_at(module, "squeeze", x)
    still = wrapped.output(x)
    if mode is not None:  # somebody sets the mode of the whole
        getattr(wrapped, mode)()
    buffers = {name: value.clone() for name, value in wrapped.named_buffers()}
    assert "module.norm.running_mean" in buffers
    with torch.random.fork_rng():
        torch.manual_seed(0)
        noisy = [wrapped.output(x, noise=Noise(torch.tensor(1))) for _ in range(2)]
    assert all(torch.equal(value, buffers[name]) for name, value in wrapped.named_buffers())
    assert (noisy[0].z - still.z).abs().max() > 1e-3
    assert (noisy[0].z - noisy[1].z).abs().max() > 1e-3
    assert wrapped.module.drop.training
    assert not wrapped.module.norm.training
    again = wrapped.output(x)  # and back: no noise, no dropout
    assert torch.equal(again.z, still.z)
    assert torch.equal(again.logits, still.logits)
    # with batch norm on its running statistics, the undropped part is the evaluation's
    wrapped.module.drop.p = 0.0
    close(wrapped.output(x, noise=Noise(torch.tensor(1))).z, still.z)
