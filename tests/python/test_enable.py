"""reprise.enable: regions under models that are called as always, and settings without effect are errors."""

import copy
import gc
import weakref

import pytest
import torch
import transformers
from gradients import assert_same_bits

import reprise
from reprise.policies import CheckpointPolicy

IDS = torch.randint(3, 120, (2, 24), generator=torch.Generator().manual_seed(0))


def llama(**changes):
    torch.manual_seed(0)
    sizes = dict(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, use_cache=False,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**(sizes | changes))).train()


def state_after(model, step=None):
    """Loss and gradients of a step from the same start."""
    torch.manual_seed(1)
    model.zero_grad()
    loss = step(model) if step else model(input_ids=IDS, labels=IDS).loss
    loss.backward()
    grads = {name: value.grad for name, value in model.named_parameters()}
    return {"loss": loss.detach(), "next": torch.rand(3)} | {name: g for name, g in grads.items()}


def recomputed(run):
    reprise.reset_stats()
    result = run()
    return result, reprise.stats()


class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.dropout = torch.nn.Linear(16, 64), torch.nn.Linear(64, 16), torch.nn.Dropout(0.2)

    def forward(self, x, scale=1.0):
        return x + scale * self.dropout(self.down(torch.nn.functional.gelu(self.up(x))))


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(128, 16)
        self.layers = torch.nn.ModuleList(Residual() for _ in range(3))

    def forward(self, ids):
        h = self.embed(ids)
        for layer in self.layers:
            h = layer(h, scale=0.5)
        return h


def step_of_plain(model):
    return model(IDS).square().mean()


def test_everything_is_recomputed_and_named_after_the_modules():
    model = llama(attention_dropout=0.1)
    plain = state_after(model)
    enabled = reprise.enable(model)
    state, stats = recomputed(lambda: state_after(model))
    assert_same_bits(state, plain)
    assert stats["entered"] == stats["recomputed"] == 3
    assert set(stats["regions"]) == {"model.layers.0", "model.layers.1", "model.layers.2"} == set(enabled.blocks)
    assert enabled.steps == 1 and "everything is recomputed" in enabled.describe()
    reprise.disable(model)
    state, stats = recomputed(lambda: state_after(model))
    assert_same_bits(state, plain)
    assert stats["entered"] == 0 and "forward" not in vars(model)


@pytest.mark.parametrize(
    "policy",
    [
        "attention",
        "matmuls:2",
        reprise.policies.save_matmuls(),
        lambda op, args, kwargs, range: op is torch.ops.aten.mm.default,
        lambda op, args, kwargs, range: CheckpointPolicy.PREFER_RECOMPUTE,
    ],
    ids=["attention", "matmuls:2", "object", "function", "recompute"],
)
def test_policies_keep_what_they_say(policy):
    model = llama()
    plain = state_after(model)
    reprise.enable(model)
    _, full = recomputed(lambda: state_after(model))
    reprise.disable(model)
    reprise.enable(model, policy=policy)
    state, stats = recomputed(lambda: state_after(model))
    assert_same_bits(state, plain)
    keeps = not callable(policy) or policy(torch.ops.aten.mm.default, (), {}, "") is True
    assert (stats["bytes_kept"] > full["bytes_kept"]) == keeps


@pytest.mark.parametrize("blocks", [Residual, "Residual", ["layers.0", "layers.1", "layers.2"]])
def test_blocks_of_any_module(blocks):
    torch.manual_seed(0)
    model = Plain().train()
    plain = state_after(model, step_of_plain)
    assert reprise.enable(model, blocks=blocks).blocks == ["layers.0", "layers.1", "layers.2"]
    state, stats = recomputed(lambda: state_after(model, step_of_plain))
    assert_same_bits(state, plain)
    assert stats["recomputed"] == 3 and "layers.1" in stats["regions"]
    reprise.disable(model)
    assert all("forward" not in vars(module) for module in model.modules())
    assert_same_bits(state_after(model, step_of_plain), plain)


def test_evaluation_and_no_grad_make_no_regions():
    model = llama()
    reprise.enable(model)
    _, stats = recomputed(lambda: model.eval()(input_ids=IDS).logits.sum().backward())
    assert stats["entered"] == 0
    with torch.no_grad():
        _, stats = recomputed(lambda: model.train()(input_ids=IDS))
    assert stats["entered"] == 0


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(budget="1GiB", policy="attention"), "Leave one of the two out"),
        (dict(host_budget="1GiB"), "no effect without a budget"),
        (dict(policy="attn"), "unknown policy"),
        (dict(policy=3), "name of a policy"),
        (dict(budget=0), "above 0"),
        (dict(budget="6 apples"), "number of bytes"),
        (dict(blocks="Decoder"), "LlamaDecoderLayer"),
        (dict(blocks=[3]), "module classes or names"),
    ],
)
def test_wrong_options_are_refused_and_leave_the_model(options, words):
    model = llama()
    with pytest.raises((ValueError, TypeError), match=words):
        reprise.enable(model, **options)
    _, stats = recomputed(lambda: state_after(model))
    assert stats["entered"] == 0
    reprise.enable(model)  # nothing of the refused call is left


def test_models_without_layers_are_refused():
    with pytest.raises(ValueError, match="no checkpointable layers"):
        reprise.enable(Plain())
    config = transformers.CTRLConfig(n_embd=32, n_layer=2, n_head=2, dff=32, vocab_size=128)
    with pytest.raises(ValueError, match="CTRLLMHeadModel has no checkpointable layers.*blocks="):
        reprise.enable(transformers.CTRLLMHeadModel(config))


def test_enabling_twice_and_disabling_once_too_often_are_errors():
    model = llama()
    with pytest.raises(ValueError, match="was not called"):
        reprise.disable(model)
    reprise.enable(model)
    with pytest.raises(ValueError, match="already"):
        reprise.enable(model, policy="attention")


def test_a_policy_that_matches_nothing_is_an_error():
    model = llama(attn_implementation="eager")
    reprise.enable(model, policy="attention")
    with pytest.raises(reprise.CheckpointError, match="kept nothing"):
        state_after(model)


def test_checkpointing_that_was_switched_off_is_an_error():
    model = llama()
    reprise.enable(model)
    model.activation_checkpointing_disable()
    with pytest.raises(RuntimeError, match="no effect.*was disabled"):
        state_after(model)
    model.activation_checkpointing_enable()
    state_after(model)
    for layer in model.model.layers:
        layer._gradient_checkpointing_func = torch.utils.checkpoint.checkpoint
    with pytest.raises(RuntimeError, match="something else has set"):
        state_after(model)


def test_blocks_in_evaluation_mode_are_an_error():
    model = llama()
    reprise.enable(model)
    model.model.layers.eval()
    with pytest.raises(RuntimeError, match="no effect.*evaluation mode"):
        state_after(model)


def test_what_trainers_call_keeps_our_regions():
    model = llama()
    plain = state_after(model)
    reprise.enable(model)
    model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    state, stats = recomputed(lambda: state_after(model))
    assert_same_bits(state, plain)
    assert stats["recomputed"] == 3
    reentrant = {"activation_checkpointing_kwargs": {"use_reentrant": True}}
    for kwargs in (reentrant, {"every_n_layers": 2}, {"offload": True}):
        with pytest.raises(ValueError, match="no effect"):
            model.activation_checkpointing_enable(**kwargs)


def test_copies_of_an_enabled_model_recompute_too():
    model = llama()
    plain = state_after(model)
    reprise.enable(model)
    twin = copy.deepcopy(model)
    state, stats = recomputed(lambda: state_after(twin))
    assert_same_bits(state, plain)
    assert stats["recomputed"] == 3


def test_compiled_blocks_are_refused_by_name():
    model = llama()
    model.model.layers[1].compile(backend="eager")
    with pytest.raises(ValueError, match="model.layers.1 is compiled"):
        reprise.enable(model)
    with pytest.raises(ValueError, match="compiled as a whole"):
        reprise.enable(torch.compile(llama(), backend="eager"))


def test_compiled_modules_inside_blocks_work():
    model = llama()
    for layer in model.model.layers:
        layer.mlp.compile(backend="aot_eager")
    plain = state_after(model)
    reprise.enable(model)
    state, stats = recomputed(lambda: state_after(model))
    assert_same_bits(state, plain)
    assert stats["recomputed"] == 3


def test_compiling_an_enabled_model_or_block_is_an_error():
    model = llama()
    reprise.enable(model)
    with pytest.raises(RuntimeError, match="is compiled"):
        state_after(torch.compile(model, backend="eager"))
    state_after(model)
    model.model.layers[1].compile(backend="eager")
    with pytest.raises(RuntimeError, match="model.layers.1 is compiled"):
        state_after(model)


@pytest.mark.parametrize("order", ["adapter first", "enable first"])
def test_peft_adapters(order):
    peft = pytest.importorskip("peft")

    def adapted(model):
        torch.manual_seed(0)
        config = peft.LoraConfig(r=4, target_modules=["q_proj", "down_proj"], lora_dropout=0.1, init_lora_weights=False)
        return peft.get_peft_model(model, config).train()

    plain = state_after(adapted(llama()))
    model = llama()
    if order == "enable first":
        reprise.enable(model)
        model = adapted(model)
    else:
        model = adapted(model)
        reprise.enable(model)
    state, stats = recomputed(lambda: state_after(model))
    assert_same_bits(state, plain)
    assert stats["recomputed"] == 3
    reprise.disable(model)
    assert_same_bits(state_after(model), plain)


def test_a_step_is_two_forwards_and_one_backward():
    model = llama()

    def step(model):
        return model(input_ids=IDS, labels=IDS).loss - model(input_ids=IDS[:, :8], labels=IDS[:, :8]).loss

    plain = state_after(model, step)
    enabled = reprise.enable(model)
    state, stats = recomputed(lambda: state_after(model, step))
    assert_same_bits(state, plain)
    assert stats["recomputed"] == 6 and enabled.steps == 1


def test_an_error_in_forward_ends_the_step():
    model = llama()
    plain = state_after(model)
    reprise.enable(model)
    with pytest.raises(IndexError):
        model(input_ids=IDS + 1000)
    assert_same_bits(state_after(model), plain)


def test_a_check_without_a_step_is_an_error():
    enabled = reprise.enable(model := llama())
    with pytest.raises(RuntimeError, match="another model object"):
        enabled.check()
    state_after(model)
    enabled.check()


def test_an_enabled_model_is_freed():
    model = llama()
    enabled = reprise.enable(model)
    state_after(model)
    held = weakref.ref(model)
    del model
    gc.collect()
    assert held() is None
    with pytest.raises(RuntimeError, match="another model object"):
        enabled.check()
        enabled.check()
