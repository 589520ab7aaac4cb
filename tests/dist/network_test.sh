#!/usr/bin/env bash
# Usage: network_test.sh <dist_tests>
# Worlds on other networks than the one of a usual machine: with a loopback interface alone, and
# across two machines, which are network namespaces with a cable between them. Needs the right to
# make namespaces; says so with code 77 where it is missing.
set -euo pipefail
export REPRISE_WORLD_SECRET="a secret of the tests"

worker=$1
first=reprise_$$_0 second=reprise_$$_1
said=$(mktemp)
trap 'rm -f "$said"' EXIT

skip() {
  echo "skipped: $1"
  exit 77
}

# rank size address port command...: one process, in its place.
start() {
  local rank=$1 size=$2 address=$3 port=$4
  shift 4
  RANK=$rank LOCAL_RANK=$((rank % 2)) WORLD_SIZE=$size MASTER_ADDR=$address MASTER_PORT=$port \
    "$@" "$worker" --gtest_filter=Worker.DISABLED_JoinsForAWhile --gtest_also_run_disabled_tests \
    >>"$said" &
}

# All end well, and none listens at an address that was not given.
wait_for_all() {
  local process
  for process in $(jobs -p); do wait "$process" || { cat "$said" && exit 1; }; done
  grep -q "^listens at " "$said"
  if grep -vE "^listens at (loopback|0[12]004D0A)$" "$said" | grep "^listens at "; then
    echo "listens at an address that was not given"
    exit 1
  fi
}

if [[ ${2:-} == loopback ]]; then
  ip link set lo up
  start 0 2 127.0.0.1 29511
  start 1 2 127.0.0.1 29511
  wait_for_all
  exit
fi

command -v ip >/dev/null || skip "no ip (iproute2)"
unshare --net true 2>/dev/null || skip "not permitted to make network namespaces"
unset GTEST_OUTPUT
unshare --net "$0" "$worker" loopback

cleanup() {
  rm -f "$said"
  ip netns delete "$first" 2>/dev/null || true
  ip netns delete "$second" 2>/dev/null || true
}
trap cleanup EXIT
if ! ip netns add "$first" 2>/dev/null || ! ip netns add "$second" 2>/dev/null ||
  ! ip -n "$first" link add cable type veth peer name cable netns "$second" 2>/dev/null; then
  skip "not permitted to connect network namespaces"
fi
for i in 1 2; do
  host=$([[ $i == 1 ]] && echo "$first" || echo "$second")
  ip -n "$host" address add 10.77.0.$i/24 dev cable
  ip -n "$host" link set lo up
  ip -n "$host" link set cable up
done
# Two ranks on each; rank 0's machine is the second, so that no side finds the other by luck.
start 0 4 10.77.0.2 29512 ip netns exec "$second"
start 1 4 10.77.0.2 29512 ip netns exec "$second"
start 2 4 10.77.0.2 29512 ip netns exec "$first"
start 3 4 10.77.0.2 29512 ip netns exec "$first"
wait_for_all
