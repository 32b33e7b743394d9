#!/usr/bin/env bash
# ./dev bench ends here, after the release build: everything is measured by run.py, which needs Python's own library only.
set -euo pipefail
exec python3 "$(dirname "$0")/run.py" "$@"
