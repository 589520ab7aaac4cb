"""Does online training learn, and the same to the last bit under every memory policy? On a CPU, in minutes.

    learning.py PROGRAM [--steps 300] [--seeds 3] [--threads 1]

GRPO: a tiny model that copies four letters badly (a short supervised start) is rewarded for exact copies; measured by
greedy answers to prompts that it was never trained on. PPO: the same model is rewarded by a reward model that
`reprise rm` made from pairs (more of the letter "a" is better), with a critic that starts from that reward model.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 64,
         "vocab_size": 260, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "initializer_range": 0.05}
POLICIES = {"none": [], "full": ["--gradient_checkpointing"],
            "attention kept": ["--gradient_checkpointing", "--gradient_checkpointing_policy", "attention"]}
LORA = {"all weights": [], "LoRA": ["--lora_r", "16", "--lora_dropout", "0"]}


class Workshop:
    def __init__(self, program, folder, threads):
        self.program, self.folder = program, folder
        self.environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}

    def run(self, *arguments):
        result = subprocess.run([self.program, *map(str, arguments)], env=self.environment, capture_output=True,
                                text=True, cwd=self.folder)
        if result.returncode != 0:
            sys.exit(f"reprise {' '.join(map(str, arguments))} failed:\n{result.stderr[-3000:]}")

    def train(self, command, output, *arguments):
        shutil.rmtree(self.folder / output, ignore_errors=True)
        cache = ["--cache_dir", "cache"] if command in ("sft", "rm") else []
        self.run(command, "--output_dir", output, "--device", "cpu", "--save_steps", 0, *cache, *arguments)
        return [json.loads(line) for line in (self.folder / output / "metrics.jsonl").read_text().splitlines()]

    def weights(self, output):
        """A hash of what was trained."""
        names = ("adapter_model.safetensors", "model.safetensors", "critic/model.safetensors")
        paths = [path for path in (self.folder / output / name for name in names) if path.exists()]
        assert paths, f"{output} has no weights"
        return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def prepare(workshop):
    source = random.Random(0)
    words = set()
    while len(words) < 700:
        words.add("".join(source.choice("abcdefgh") for _ in range(4)))
    words = sorted(words)
    source.shuffle(words)
    folder = workshop.folder
    (folder / "config.json").write_text(json.dumps(MODEL))
    (folder / "text.txt").write_text("\n".join(f"{word}>{word}" for word in words))
    write_rows(folder / "sft.jsonl", [{"prompt": f"{word}>", "completion": word} for word in words[:300]])
    write_rows(folder / "prompts.jsonl", [{"prompt": f"{word}>", "answer": word} for word in words[300:600]])
    write_rows(folder / "held_out.jsonl", [{"prompt": f"{word}>", "answer": word} for word in words[600:]])
    by_letter = sorted(words, key=lambda word: word.count("a"))
    few, many = by_letter[:300], by_letter[-300:]
    write_rows(folder / "pairs.jsonl", [{"prompt": f"{source.choice(words)}>", "chosen": good, "rejected": bad}
                                        for good, bad in zip(many, few)])
    workshop.run("init", "--config", "config.json", "--text", "text.txt", "--output", "fresh", "--vocabulary", 260)
    workshop.train("sft", "start", "--model", "fresh", "--data", "sft.jsonl", "--max_steps", 39,
                   "--per_device_train_batch_size", 32, "--learning_rate", 3e-3)
    workshop.train("rm", "judge", "--model", "start", "--data", "pairs.jsonl", "--max_steps", 60,
                   "--per_device_train_batch_size", 16, "--learning_rate", 1e-3)


def exact_match(records):
    return next(record["eval_reward"] for record in reversed(records) if "eval_reward" in record)


def grpo(workshop, output, steps, rate, *arguments):
    return workshop.train("grpo", output, "--model", "start", "--data", "prompts.jsonl", "--eval_data",
                          "held_out.jsonl", "--eval_steps", 1000, "--reward_function", "exact_match",
                          "--num_generations", 8, "--per_device_train_batch_size", 64, "--max_completion_length", 6,
                          "--max_steps", steps, "--learning_rate", rate, "--seed", 1, *arguments)


def ppo(workshop, output, steps, seed, *arguments):
    return workshop.train("ppo", output, "--model", "start", "--data", "prompts.jsonl", "--reward_model", "judge",
                          "--critic_model", "judge", "--per_device_train_batch_size", 32, "--max_completion_length", 6,
                          "--max_steps", steps, "--learning_rate", 5e-4, "--critic_learning_rate", 1e-3, "--kl_coef",
                          0.01, "--num_iterations", 2, "--seed", seed, *arguments)


def rewards_of(records):
    return [record["reward"] for record in records if "reward" in record]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=300, help="of GRPO")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        workshop = Workshop(options.program.resolve(), pathlib.Path(name), options.threads)
        prepare(workshop)
        before = exact_match(grpo(workshop, "untrained", 1, 1e-12))
        print(f"GRPO, exact copies of held-out words: {before:.0%} after the supervised start")
        missed = []
        for lora, adapters in LORA.items():
            rate = 2e-3 if adapters else 4e-4
            hashes = set()
            for policy, checkpointing in POLICIES.items():
                records = grpo(workshop, "out", options.steps, rate, *adapters, *checkpointing)
                hashes.add(workshop.weights("out"))
                step = records[options.steps // 2]
                print(f"  {lora}, {policy}: {exact_match(records):.0%}, {step['activation_bytes']} activation bytes, "
                      f"{step['regions_recomputed']} regions recomputed a step")
                missed += [f"{lora}, {policy}: at most 80 %"] * (exact_match(records) <= 0.8)
            print(f"  {lora}: the three are {'identical' if len(hashes) == 1 else 'DIFFERENT'} to the last bit")
            missed += [f"GRPO with {lora} differs between memory policies"] * (len(hashes) != 1)
        print("PPO, mean reward of the first and the last ten generation batches")
        gains = []
        for seed in range(options.seeds):
            hashes = set()
            for policy, checkpointing in POLICIES.items():
                records = ppo(workshop, "out", 120, seed, *checkpointing)
                hashes.add(workshop.weights("out"))
            rewards = rewards_of(records)
            first, last = statistics.mean(rewards[:10]), statistics.mean(rewards[-10:])
            gains.append(last - first)
            print(f"  seed {seed}: {first:.3f} -> {last:.3f}; under three memory policies "
                  f"{'identical' if len(hashes) == 1 else 'DIFFERENT'}")
            missed += [f"PPO, seed {seed}, differs between memory policies"] * (len(hashes) != 1)
        error = statistics.stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else math.nan
        print(f"  gain over {len(gains)} seeds: {statistics.mean(gains):.3f}, standard error {error:.3f}")
        missed += ["PPO gains less than two standard errors"] * (statistics.mean(gains) <= 2 * error)
        if missed:
            sys.exit("missed: " + "; ".join(missed))


if __name__ == "__main__":
    main()
