#!/usr/bin/env bash
# Make or refresh a virtual environment from hashed requirements: venv.sh FOLDER REQUIREMENTS
set -euo pipefail
venv=$1 requirements=$2

find_python() {
  local each
  for each in "${PYTHON:-}" python3.13 python3.12 python3.11 python3.14 python3; do
    # Running it tells more than finding it: version managers leave names behind that only print an error.
    if [ -n "$each" ] && "$each" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      echo "$each"
      return
    fi
  done
  echo "terrazzo needs Python 3.11 or newer with the venv module; install it, or say PYTHON=/path/to/python3 make …" >&2
  exit 2
}

if [ ! -x "$venv/bin/python" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
  rm -rf "$venv"
  python=$(find_python)
  echo "setting up $venv with $("$python" --version) …" >&2
  "$python" -m venv "$venv"
fi
"$venv/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "$requirements"
