"""The two sides of gpu_compare.py as processes with time limits: the GPU is rented by the minute.

Ours starts anew for every job, which takes a few seconds; the peers' process answers requests until the end. Only one
of them works at a time, and who waits holds no memory of the GPU but its context.
"""
import json
import os
import select
import subprocess
import time

START_SECONDS = 90  # importing torch and transformers on a fresh machine


def run_ours(program, job, seconds):
    """The results of bench_gpu, and an error if it did not end well; what it printed before counts."""
    shape = job.shape
    length = [] if "--lengths" in job.flags else ["--seq", str(shape.seq)]
    command = [program, "--json", "--shape", shape.name, "--batch", str(shape.batch), *length, "--modes",
               ",".join(job.modes), "--steps", str(job.steps), "--warmup", str(job.warmup), *job.flags]
    results, failure = lines_of(command, seconds)
    return results + ([job.missing(failure)] if failure else [])


def run_kernels(program, seconds):
    """The rows of bench_kernels, on its own shapes."""
    results, failure = lines_of([program, "--json"], seconds)
    return results + ([{"kernel": "all", "shape": "", "error": failure}] if failure else [])


def lines_of(command, seconds):
    """The JSON lines of a program, and why it did not end well, if so."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds)
        output = done.stdout
        failure = f"exit code {done.returncode}: {done.stderr.decode()[-300:]}" if done.returncode else None
    except subprocess.TimeoutExpired as stopped:
        output, failure = stopped.stdout or b"", f"longer than {seconds:.0f} s"
    except OSError as error:
        output, failure = b"", str(error)
    lines = output.decode().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")], failure


class PeerProcess:
    """gpu_peer.py --serve. One that is too slow or ends is replaced at the next request."""

    def __init__(self, command):
        self.command = command
        self.process = None
        self.unread = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.communicate()
        self.process, self.unread = None, b""

    def ask(self, request, seconds):
        if self.process is None:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            seconds += START_SECONDS
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            answer = json.loads(self.read_line(time.monotonic() + seconds))
            if "CUDA error" in answer.get("error", ""):
                self.stop()  # its context is lost
            return answer
        except (OSError, EOFError, TimeoutError) as error:
            self.stop()
            return {**request, "error": str(error) or type(error).__name__}

    def read_line(self, end):
        stdout = self.process.stdout.fileno()
        while b"\n" not in self.unread:
            if not select.select([stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError("longer than its time limit")
            more = os.read(stdout, 65536)
            if not more:
                raise EOFError(f"the peers' process ended with code {self.process.wait()}")
            self.unread += more
        line, _, self.unread = self.unread.partition(b"\n")
        return line
