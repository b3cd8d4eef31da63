#!/bin/sh
# Build .venv from the lock, fetch the jars and compile the kernels. Asked again with nothing changed, it does nothing.
# PYTHON names the interpreter to use; without it the first of python3, python3.13, python3.12, python3.11 that fits.
set -eu
cd "$(dirname "$0")/.."

fail() {
    echo "install: $*" >&2
    exit 2
}

fits() { # a Python that runs and is one of those that the lock was made for
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.11, 3.12 or 3.13"
else
    for PYTHON in python3 python3.13 python3.12 python3.11 ""; do
        if [ -n "$PYTHON" ] && fits "$PYTHON"; then break; fi
    done
    [ -n "$PYTHON" ] || fail "no Python 3.11, 3.12 or 3.13 found; name one with: make install PYTHON=/path/to/python3"
fi
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# A virtual environment holds absolute paths, so the place counts too.
stamp="$version $(pwd) $(cat requirements.txt pyproject.toml scripts/install.sh | cksum)"
if [ -f .venv/.installed ] && [ "$(cat .venv/.installed)" = "$stamp" ]; then exit 0; fi
rm -f .venv/.installed

mkdir -p .cache
python=.venv/bin/python
if ! "$python" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; then
    "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$PYTHON has no venv module; install it (Debian, Ubuntu: apt install python$version-venv) and try again"
    echo "install: .venv with Python $version"
    "$PYTHON" -m venv --clear .venv
fi

# uv comes from the lock as well: its block there carries the hashes.
awk '/^uv==/ {on = 1} on {print} on && !/\\$/ {exit}' requirements.txt >.cache/uv.txt
uv_version=$(sed -n 's/^uv==\([^ ]*\).*/\1/p' .cache/uv.txt)
if [ "$(.venv/bin/uv --version 2>/dev/null | cut -d ' ' -f 2)" != "$uv_version" ]; then
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r .cache/uv.txt
fi
if [ ! -w "${HOME:-/nonexistent}" ]; then
    UV_CACHE_DIR=${UV_CACHE_DIR:-$(pwd)/.cache/uv}
    export UV_CACHE_DIR
fi

echo "install: the locked packages (about 1.4 GB once unpacked)"
if ! .venv/bin/uv pip sync --quiet --compile-bytecode --python "$python" --require-hashes requirements.txt; then
    # uv does not read pip's own settings (an index or a certificate in pip.conf); pip is slower and does.
    echo "install: uv could not, trying pip" >&2
    "$python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.txt
fi
.venv/bin/uv pip install --quiet --python "$python" --offline --no-deps --no-build-isolation --editable .
"$python" -m compileall -q include dags # where PYTHONDONTWRITEBYTECODE is set, each command would compile it all

echo "install: jars"
"$python" -m sexton.kafka.jars ensure
echo "install: compiling the kernels, and archiving the classes with which Kafka and Spark start faster"
"$python" -m sexton_dev.java_home &
for _ in compile ship; do # the second time they are loaded, and copied to where wheels have them
    NUMBA_CACHE_DIR=${NUMBA_CACHE_DIR:-$(pwd)/.cache/numba} "$python" -m sexton.ship_kernels
done
wait $! || echo "install: no class archives; Kafka and Spark load their classes one by one" >&2
echo "$stamp" >.venv/.installed
echo "install: done"
