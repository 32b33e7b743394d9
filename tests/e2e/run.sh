#!/usr/bin/env bash
# What ./dev run does after the build: a router with engines behind it, two real requests, the routing table.
#   run.sh                 two engine simulators: one served by the router itself (--backend), one with an agent beside it
#   run.sh URL             an engine that is already there, served by the router itself
#   run.sh --agent [URL]   an engine (simulated unless one is named) with an agent beside it
# Everything listens on loopback, on ports the system chose; state lives in a fresh folder. Ends with Ctrl-C.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
bin=${HIVE_BUILD:-$top/build/release}/bin
state=$(mktemp -d)
pids=()
stop() {
  trap - EXIT INT TERM
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$state"
}
trap stop EXIT
trap 'exit 0' INT TERM

# The first ready line in a file, at most 15 s later.
ready() {
  for _ in $(seq 150); do
    [ -s "$1" ] && grep -q '"ready":true' "$1" && return
    sleep 0.1
  done
  echo "$2 did not become ready; its log:" >&2
  cat "$state"/*.log >&2
  exit 1
}
field() { sed -n "s/.*\"$2\":\\[*\"\\([^\"]*\\)\".*/\\1/p" "$1" | head -1; }
# Starts an engine simulator; its URL goes to $simulated.
simulate() {
  "$bin/engine_sim" --model sim-model --step-ms 20 --tokens 12 >"$state/$1.out" 2>"$state/$1.log" &
  pids+=($!)
  ready "$state/$1.out" "the engine simulator"
  simulated=http://$(field "$state/$1.out" address)
}

inside= beside=
case "${1:-}" in
  --agent) beside=${2:-simulator} ;;
  -*) sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  '') inside=simulator beside=simulator ;;
  *) inside=$1 ;;
esac
if [ "$inside" = simulator ]; then simulate engine-inside; inside=$simulated; fi
if [ "$beside" = simulator ]; then simulate engine-beside; beside=$simulated; fi

export HIVENET_ROUTER_ADMIN_API_KEYS
HIVENET_ROUTER_ADMIN_API_KEYS=admin-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
flags=(--http-port 127.0.0.1:0 --metrics-port 127.0.0.1:0 --disk-db-path "$state/db"
  --audit-log-path "$state/audit.jsonl")
agents=0
if [ -n "$inside" ]; then flags+=(--backend "$inside"); agents=$((agents + 1)); fi
if [ -n "$beside" ]; then
  export HIVENET_ROUTER_JWT_SECRET
  HIVENET_ROUTER_JWT_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
  flags+=(--link-listen 127.0.0.1:0)
  agents=$((agents + 1))
fi
"$bin/hivenet-router" "${flags[@]}" >"$state/router.out" 2>"$state/router.log" &
pids+=($!)
ready "$state/router.out" "the router"
router=http://$(field "$state/router.out" http)

if [ -n "$beside" ]; then
  engine_kind=vllm
  page=$(curl -s -m 5 "$beside/metrics" | head -c 65536 || true)
  case "$page" in *llamacpp:*) engine_kind=llamacpp ;; esac
  "$bin/hivenet-agent" --engine "$engine_kind" --backend-url "$beside" --router "$(field "$state/router.out" link)" \
    --identity-path "$state/agent.key" 2>"$state/agent.log" &
  pids+=($!)
fi

table() { curl -sS "$router/admin/routing-table" -H "Authorization: Bearer $HIVENET_ROUTER_ADMIN_API_KEYS"; }
routable=0
for _ in $(seq 300); do
  # Nobody yet is no failure of the pipe.
  routable=$(table | { grep -o '"routable":true' || true; } | wc -l)
  [ "$routable" -ge "$agents" ] && break
  sleep 0.1
done
[ "$routable" -ge "$agents" ] || { echo "not every engine became routable; logs:" >&2; cat "$state"/*.log >&2; exit 1; }
model=$(curl -s "$router/v1/models" | sed -n 's/.*"data":\[{"id":"\([^"]*\)".*/\1/p')

echo
echo "== a streamed chat completion of model $model"
curl -sS -N "$router/v1/chat/completions" -H 'Content-Type: application/json' \
  -d "{\"model\":\"$model\",\"stream\":true,\"max_tokens\":12,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}"
echo "== a buffered one"
curl -sS "$router/v1/chat/completions" -H 'Content-Type: application/json' \
  -d "{\"model\":\"$model\",\"max_tokens\":12,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}"
echo
echo
echo "== the routing table"
table | python3 -m json.tool
cat <<END

It is up. Try:
  curl $router/v1/models
  curl $router/admin/health -H 'Authorization: Bearer $HIVENET_ROUTER_ADMIN_API_KEYS'
  curl http://$(field "$state/router.out" metrics)/metrics
${inside:+engine inside the router: $inside
}${beside:+engine with an agent: $beside
}OpenAI base URL $router/v1, logs $state/*.log
Ctrl-C stops everything.
END
while kill -0 "${pids[@]}" 2>/dev/null; do sleep 1; done
echo "a process has ended by itself; logs:" >&2
cat "$state"/*.log >&2
exit 1
