#!/usr/bin/env bash
# run.sh [TARGET|all] [RUNS]: fuzzes from the checked-in corpus; what is new goes to build/fuzz/inputs, findings to build/fuzz/findings.
# run.sh keep [TARGET|all]: takes over the smallest new inputs that together reach what all of them do.
# One line a target goes to build/fuzz/results.txt: target, commit, executions, seconds, edges, features, findings.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=build/fuzz/fuzz
# Where it was allocated, not by whom: whole stacks cost the edge a fifth of its time. And freed memory comes back after 32 MiB, which
# is more than an execution frees, instead of 256 MiB that no cache holds. A finding is run again without.
export ASAN_OPTIONS=malloc_context_size=2:quarantine_size_mb=32

longest() {
  case "$1" in
    yaml | policy | settings | auth_file) echo 2048 ;;
    sse | request_json | http_server | http_client) echo 4096 ;;
    engine_*) echo 8192 ;;
    link_session) echo 1024 ;;
    credential | identity | plugin_answer | address | route) echo 256 ;;
    *) echo 4096 ;;
  esac
}

targets() {
  if [ "${1:-all}" != all ]; then
    [ -x "$programs/fuzz_$1" ] || { echo "there is no target $1; there are: $(ls $programs | sed 's/fuzz_//' | tr '\n' ' ')" >&2; exit 2; }
    echo "$1"
  else
    ls $programs | sed 's/fuzz_//'
  fi
}

options() {
  echo "-rss_limit_mb=1024 -timeout=10 -max_len=$(longest "$1")"
  [ ! -f "tests/fuzz/dict/$1.dict" ] || echo "-dict=tests/fuzz/dict/$1.dict"
}

if [ "${1:-}" = keep ]; then
  # The smallest set that reaches all the rest does, smallest inputs first, at most 20 a target.
  for target in $(targets "${2:-all}"); do
    small=build/fuzz/small/$target
    rm -rf "$small"
    mkdir -p "$small" "build/fuzz/inputs/$target"
    "$programs/fuzz_$target" -set_cover_merge=1 $(options "$target") "$small" "tests/fuzz/corpus/$target" "build/fuzz/inputs/$target" >"build/fuzz/$target.merge.log" 2>&1
    find "tests/fuzz/corpus/$target" -name 'new-*' -delete
    known=$(sha1sum "tests/fuzz/corpus/$target"/* | cut -d' ' -f1)
    kept=0
    for file in $(ls -Sr "$small"); do  # named by their SHA-1
      [ $kept -lt 20 ] && [ "$(stat -c %s "$small/$file")" -le 4096 ] || break
      case "$known" in *"$file"*) continue ;; esac
      cp "$small/$file" "tests/fuzz/corpus/$target/new-${file:0:12}"
      kept=$((kept + 1))
    done
    echo "$target: $kept inputs beside $(find "tests/fuzz/corpus/$target" -name 'seed-*' | wc -l) seeds"
  done
  exit
fi

failed=0
runs=${2:-5000000}
commit=$(git rev-parse --short=9 HEAD 2>/dev/null || echo unknown)
for target in $(targets "${1:-all}"); do
  mkdir -p "build/fuzz/inputs/$target" build/fuzz/findings
  log=build/fuzz/$target.log
  begin=$SECONDS
  status=0
  nice -n 15 "$programs/fuzz_$target" -runs="$runs" $(options "$target") -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$target-" \
    "build/fuzz/inputs/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
  done=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  reached=$(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -1)
  line="$target $commit executions=${done:-?} seconds=$((SECONDS - begin)) ${reached} findings=$((status != 0))"
  echo "$line" | tee -a build/fuzz/results.txt
  if [ $status -ne 0 ]; then
    tail -40 "$log"
    failed=1
  fi
done
exit $failed
