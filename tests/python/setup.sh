#!/usr/bin/env bash
# Makes a Python environment with what requirements.txt names, once for each content of that file,
# and prints the path of its interpreter.
#
#   setup.sh [NAME...]
#
# With names, the environment is another one, which has the packages of requirements-NAME.txt too: who
# needs only the first ones doesn't wait for the others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

die() {
    printf '%s\n' "$*" >&2
    exit 1
}

command -v python3 >/dev/null || die "python3 is missing: install Python 3.10 or newer with its venv module"
command -v flock >/dev/null || die "flock is missing: install util-linux"

files=(requirements.txt)
for name in "$@"; do
    [ -e "requirements-$name.txt" ] || die "there is no tests/python/requirements-$name.txt"
    files+=("requirements-$name.txt")
done

cache="${XDG_CACHE_HOME:-$HOME/.cache}/tributary-tests"
key=$({ cat "${files[@]}" && python3 -V; } | cksum | cut -d' ' -f1)
dir="$cache/python-$key"
mkdir -p "$cache"

# Two runs at once make it once.
exec 9>"$dir.lock"
flock 9
if [ ! -e "$dir/complete" ]; then
    rm -rf "$dir"
    python3 -m venv "$dir" >&2 || die "no environment can be made: install Python's venv module (python3-venv)"
    "$dir/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
        "${files[@]/#/--requirement=}" >&2 || die "pip could not install ${files[*]} of tests/python"
    touch "$dir/complete"
fi
printf '%s\n' "$dir/bin/python"
