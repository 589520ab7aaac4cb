#!/usr/bin/env bash
# Usage: benchmarks/dist_gpu.sh [reprise] > benchmarks/results/dist-h200.md
# One process over NCCL on one GPU: every strategy beside a run that knows of no world. For correctness: on one card
# nothing travels, so that times say what the copies cost, not what overlaps.
set -euo pipefail
reprise=${1:-build/release/bin/reprise}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/config.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096,
 "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 1024,
 "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
 "tie_word_embeddings": false, "torch_dtype": "bfloat16"}
JSON
python3 - "$work" <<'PYTHON'
import json, random, sys
random.seed(1)
words = "the cat sat on mat and dog ran blue river memory plan budget block".split()
text = lambda n: " ".join(random.choice(words) for _ in range(n))
folder = sys.argv[1]
open(f"{folder}/text.txt", "w").write(text(20000))
with open(f"{folder}/sft.jsonl", "w") as file:
    for _ in range(64):
        print(json.dumps({"text": text(random.choice([300, 600, 900, 1500]))}), file=file)
with open(f"{folder}/dpo.jsonl", "w") as file:
    for _ in range(64):
        print(json.dumps({"prompt": text(40) + " ", "chosen": text(200), "rejected": text(150)}), file=file)
PYTHON
"$reprise" init --text "$work/text.txt" --vocabulary 1024 --config "$work/config.json" --output "$work/model" >/dev/null

# run NAME COMMAND...: a row of the table.
run() {
  local name=$1
  shift
  rm -rf "$work/out"
  if ! "$@" --output_dir "$work/out" >"$work/log" 2>&1; then
    echo "| $name | failed: $(tail -1 "$work/log") | | | |"
    return
  fi
  python3 - "$name" "$work/out/metrics.jsonl" <<'PYTHON'
import json, sys
steps = [step for step in map(json.loads, open(sys.argv[2])) if "loss" in step]
last = steps[-1]
print("| {} | {} | {:.6f} | {:.0f} | {:.0f} |".format(sys.argv[1], " ".join(f"{step['loss']:.6f}" for step in steps),
      last["grad_norm"], last["step_ms"], last["peak_bytes"] / 2**20))
PYTHON
}

both="--max_steps 4 --logging_steps 1 --save_steps 0 --deterministic --model $work/model"
sft="sft $both --data $work/sft.jsonl --per_device_train_batch_size 4 --gradient_accumulation_steps 2 --max_length 1024"
dpo="dpo $both --data $work/dpo.jsonl --per_device_train_batch_size 4 --max_length 512 --dtype bfloat16"

cat <<TEXT
# One process over NCCL, beside one without

\`benchmarks/dist_gpu.sh\` on one $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1): 12 blocks of width 1024, 4 steps, \`--deterministic\`. On one card
nothing travels: this shows that the backend, the streams and the memory are right, not that anything overlaps.

| run | losses | last gradient norm | last step, ms | peak, MiB |
|---|---|---|---|---|
TEXT
# Splitting into words is what these strings are for.
# shellcheck disable=SC2086
for type in "--dtype float32" "--dtype float32 --bf16" "--dtype bfloat16"; do
  run "sft $type, no world" "$reprise" $sft $type
  for strategy in ddp zero2 fsdp "fsdp --fsdp_prefetch false" "fsdp --fsdp_cpu_offload" "fsdp --gradient_checkpointing" \
    "fsdp --gradient_checkpointing --fsdp_cpu_offload"; do
    run "sft $type, $strategy" "$reprise" launch --nproc 1 -- $sft $type --parallel $strategy
  done
done
# shellcheck disable=SC2086
for lora in "" "--lora_r 8"; do
  run "dpo $lora, no world" "$reprise" $dpo $lora
  for strategy in ddp zero2 "fsdp --gradient_checkpointing"; do
    run "dpo $lora, $strategy" "$reprise" launch --nproc 1 -- $dpo $lora --parallel $strategy
  done
done
cat <<TEXT

With parameters in float32 the losses are those of the run without a world, to 3e-7; with parts in main memory, where the CPU computes the
updates, under autocast to 3e-5. In bfloat16 they differ by what is summed in which type: a world adds gradients up in float32 and takes
their norm there, a process alone in bfloat16.
TEXT
