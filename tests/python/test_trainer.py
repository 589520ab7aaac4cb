"""reprise.TrainerCallback and reprise.enable under transformers' Trainer and TRL's trainers: the same training."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch
import transformers
from gradients import assert_same_bits
from test_enable import llama

import reprise

WIDE = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=3)
IDS = [[(7 * i + 3 * k) % 117 + 3 for k in range(n)] for i, n in enumerate((24, 24, 17, 24, 30, 8, 24, 24))]
ROWS = [{"input_ids": ids, "labels": ids} for ids in IDS]


def pad(rows):
    length = max(len(row["input_ids"]) for row in rows)
    fill = lambda values, value: values + [value] * (length - len(values))  # noqa: E731
    return {
        "input_ids": torch.tensor([fill(row["input_ids"], 0) for row in rows]),
        "attention_mask": torch.tensor([fill([1] * len(row["input_ids"]), 0) for row in rows]),
        "labels": torch.tensor([fill(row["labels"], -100) for row in rows]),
    }


def settings(tmp_path, kind=transformers.TrainingArguments, **more):
    common = dict(
        output_dir=str(tmp_path), per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=3, seed=7,
        learning_rate=1e-2, logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    return kind(**(common | more))


def trained(trainer):
    """Weights after training, and the losses of its steps."""
    trainer.train()
    state = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    losses = [torch.tensor(entry["loss"]) for entry in trainer.state.log_history if "loss" in entry]
    assert losses
    return state | {f"loss {i}": loss for i, loss in enumerate(losses)}


def with_trainer(tmp_path, model, callbacks=(), **more):
    return transformers.Trainer(
        model, settings(tmp_path, **more), train_dataset=ROWS, data_collator=pad, callbacks=list(callbacks)
    )


def lora(model):
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "up_proj"], lora_dropout=0.1, task_type="CAUSAL_LM")
    return peft.get_peft_model(model, config)


@pytest.mark.parametrize("options", [{}, {"policy": "attention"}, {"budget": "900KiB"}], ids=str)
@pytest.mark.parametrize("adapt", [lambda model: model, lora], ids=["full", "lora"])
def test_callback_trains_the_same(tmp_path, options, adapt):
    plain = trained(with_trainer(tmp_path, adapt(llama(**WIDE))))
    callback = reprise.TrainerCallback(**options)
    reprise.reset_stats()
    model = adapt(llama(**WIDE))
    assert_same_bits(trained(with_trainer(tmp_path, model, [callback])), plain)
    assert callback.enabled.steps == 6 and reprise.stats()["recomputed"] >= 6
    assert ("budget" in options) == (callback.enabled.peak_bytes > 0)
    with pytest.raises(ValueError, match="was not called"):
        reprise.disable(model)  # the callback has done it


def test_trainers_own_setting_is_ours(tmp_path):
    plain = trained(with_trainer(tmp_path, llama(**WIDE)))
    model = llama(**WIDE)
    enabled = reprise.enable(model, budget="900KiB")
    assert_same_bits(trained(with_trainer(tmp_path, model, activation_checkpointing=True)), plain)
    assert enabled.steps == 6 and enabled.plans
    model = llama(**WIDE)
    reprise.enable(model)
    kwargs = {"use_reentrant": True}
    with pytest.raises(ValueError, match="no effect"):
        trained(with_trainer(tmp_path, model, activation_checkpointing=True, activation_checkpointing_kwargs=kwargs))


def test_bfloat16_under_accelerate(tmp_path):
    plain = trained(with_trainer(tmp_path, llama(**WIDE), bf16=True))
    callback = reprise.TrainerCallback(budget="900KiB")
    assert_same_bits(trained(with_trainer(tmp_path, llama(**WIDE), [callback], bf16=True)), plain)
    model = llama(**WIDE)
    reprise.enable(model)
    assert_same_bits(trained(with_trainer(tmp_path, model, [reprise.TrainerCallback()], bf16=True)), plain)


def test_options_that_have_no_effect_are_refused(tmp_path):
    model = llama(**WIDE)
    reprise.enable(model)
    with pytest.raises(ValueError, match="no effect"):
        trained(with_trainer(tmp_path, model, [reprise.TrainerCallback(policy="attention")]))
    with pytest.raises(TypeError, match="bugdet"):
        trained(with_trainer(tmp_path, llama(**WIDE), [reprise.TrainerCallback(bugdet="1GiB")]))


def test_the_trainers_own_checkpointing_gives_way(tmp_path):
    plain = trained(with_trainer(tmp_path, llama(**WIDE)))
    callback = reprise.TrainerCallback()
    assert_same_bits(trained(with_trainer(tmp_path, llama(**WIDE), [callback], activation_checkpointing=True)), plain)
    assert callback.enabled.steps == 6
    for kwargs in ({"use_reentrant": True}, {"every_n_layers": 2}):
        more = dict(activation_checkpointing=True, activation_checkpointing_kwargs=kwargs)
        with pytest.raises(ValueError, match="no effect"):
            trained(with_trainer(tmp_path, llama(**WIDE), [reprise.TrainerCallback()], **more))


def test_compiling_the_whole_model_is_an_error(tmp_path):
    compiles = dict(torch_compile=True, torch_compile_backend="eager")
    with pytest.raises(RuntimeError, match="is compiled"):
        trained(with_trainer(tmp_path, llama(**WIDE), [reprise.TrainerCallback()], **compiles))


def test_training_again_after_an_error(tmp_path):
    model, callback = llama(**WIDE), reprise.TrainerCallback(budget="900KiB")
    trainer = with_trainer(tmp_path, model, [callback])
    hook = model.model.norm.register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        trainer.train()
    hook.remove()
    trained(with_trainer(tmp_path, model, [callback]))
    assert callback.enabled.steps == 6


def test_checkpointing_that_ends_during_training_is_an_error(tmp_path):
    class Saboteur(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            for layer in model.model.layers:
                layer.gradient_checkpointing = False

    with pytest.raises(RuntimeError, match="no effect"):
        trained(with_trainer(tmp_path, llama(**WIDE), [reprise.TrainerCallback(), Saboteur()]))


def test_training_another_model_than_the_enabled_one_is_an_error(tmp_path):
    class Other(transformers.Trainer):
        def compute_loss(self, model, inputs, **kwargs):
            return self.other(**inputs).loss

    trainer = Other(
        llama(**WIDE), settings(tmp_path), train_dataset=ROWS, data_collator=pad, callbacks=[reprise.TrainerCallback()]
    )
    trainer.other = llama(**WIDE)
    with pytest.raises(RuntimeError, match="another model object"):
        trainer.train()


def test_a_budget_that_no_plan_meets_stops_training(tmp_path):
    with pytest.raises(RuntimeError, match="the least budget for this step is"):
        trained(with_trainer(tmp_path, llama(**WIDE), [reprise.TrainerCallback(budget="20KiB")]))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "<unk>"] + [f"w{k}" for k in range(100)])}
    model = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    model.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def text(start, count):
    return " ".join(f"w{(start + 3 * k) % 100}" for k in range(count))


def trl_trainer(kind, tmp_path, tokenizer, model, callbacks=(), **more):
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    config = {"SFT": trl.SFTConfig, "DPO": trl.DPOConfig, "GRPO": trl.GRPOConfig}[kind]
    if kind == "SFT":
        rows = [{"text": text(i, 12 + i)} for i in range(8)]
    elif kind == "DPO":
        more["ref_model"] = llama(**WIDE)
        rows = [{"prompt": text(i, 4), "chosen": " " + text(i, 6), "rejected": " " + text(i + 9, 5)} for i in range(8)]
    else:
        rows = [{"prompt": text(i, 4)} for i in range(8)]
        more |= dict(
            num_generations=2, max_completion_length=6, reward_funcs=lambda completions, **_: [
                float(len(set(completion.split()))) for completion in completions
            ],
        )  # fmt: skip
    of_trainer = {name: more.pop(name) for name in ("reward_funcs", "peft_config", "ref_model") if name in more}
    if "peft_config" in of_trainer:
        of_trainer.pop("ref_model", None)
    return getattr(trl, f"{kind}Trainer")(
        model=model, args=settings(tmp_path, config, max_steps=2, bf16=False, **more),
        train_dataset=Dataset.from_list(rows), processing_class=tokenizer, callbacks=list(callbacks), **of_trainer,
    )  # fmt: skip


@pytest.mark.parametrize("line", ["enable", "callback"])
@pytest.mark.parametrize("kind", ["SFT", "DPO", "GRPO"])
def test_trls_trainers(tmp_path, tokenizer, kind, line):
    sizes = WIDE | dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    off = dict(gradient_checkpointing=False)
    plain = trained(trl_trainer(kind, tmp_path, tokenizer, llama(**sizes), **off))
    model = llama(**sizes)
    callback = reprise.TrainerCallback(**({} if line == "enable" else {"budget": "8MiB"}))
    if line == "enable":
        reprise.enable(model, budget="8MiB")
    assert_same_bits(trained(trl_trainer(kind, tmp_path, tokenizer, model, [callback])), plain)
    assert callback.enabled.steps == 4 and 0 < callback.enabled.peak_bytes <= 8 << 20


@pytest.mark.parametrize("kind", ["SFT", "DPO"])
def test_trls_adapters(tmp_path, tokenizer, kind):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "up_proj"], task_type="CAUSAL_LM")
    sizes = WIDE | dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    off = dict(gradient_checkpointing=False)
    plain = trained(trl_trainer(kind, tmp_path, tokenizer, llama(**sizes), peft_config=config, **off))
    model = llama(**sizes)
    enabled = reprise.enable(model, policy="attention" if kind == "DPO" else None)
    assert_same_bits(trained(trl_trainer(kind, tmp_path, tokenizer, model, peft_config=config)), plain)
    assert enabled.steps == 4


SHARDED = """
    import os, sys, torch, torch.distributed as dist
    sys.path.insert(0, {tests!r})
    from test_enable import llama, IDS
    import reprise
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = torch.distributed.init_device_mesh("cpu", (2,))
    states = []
    for options in (None, {{}}, {{"policy": "attention"}}, {{"budget": "64MiB"}}, {{"budget": 900_000}}):
        model = llama(hidden_size=64, num_hidden_layers=3)
        if options is not None:
            enabled = reprise.enable(model, **options)
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for step in range(3):
            ids = (IDS + dist.get_rank() + step) % 117 + 3
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        states.append(losses + [parameter.to_local().clone() for parameter in model.parameters()])
        if options is not None:
            assert enabled.steps == 3, enabled.steps
            assert ("budget" in options) == (enabled.peak_bytes > 0)
    assert enabled.peak_bytes <= 900_000 and enabled.plans[0].peak_bytes < 600_000  # less what collectives hold
    for state in states[1:]:
        assert all(torch.equal(a, b) for a, b in zip(state, states[0], strict=True))
    dist.destroy_process_group()
    print("same", flush=True)
    os._exit(0)  # how c10d's threads end with the interpreter is not what this tests
"""


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="this PyTorch has no Gloo")
def test_fully_shard_in_two_processes(tmp_path):
    script = tmp_path / "sharded.py"
    script.write_text(textwrap.dedent(SHARDED.format(tests=os.path.dirname(__file__))))
    common = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29600 + os.getpid() % 300))
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script)], env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    outputs = [process.communicate(timeout=120)[0] for process in ranks]
    assert all(process.returncode == 0 and "same" in out for process, out in zip(ranks, outputs)), json.dumps(outputs)
