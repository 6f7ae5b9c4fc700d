# Sourced by ./mannerly and ./check: finds Python and keeps the virtual environment. POSIX sh.
#
#   environment runtime|development
#
# Afterwards $python is the environment's interpreter. What is installed is remembered in a stamp file that is named
# after the inputs, so a second start costs a few milliseconds.

venv=${MANNERLY_VENV:-$root/.venv}

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "error: $1"
    [ $# -lt 2 ] || say "hint: $2"
    exit 1
}

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Sets $base to a Python of 3.11 or later: $PYTHON, python3, then the versions by name.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is no Python 3.11 or later"
        base=$PYTHON
        return
    fi
    for base in python3 python3.13 python3.12 python3.11 python3.14; do
        if is_new_enough "$base"; then return; fi
    done
    package=python3.11-venv
    found=$(python3 --version 2>&1) || { found="no python3" package=python3-venv; }
    case $(uname -s) in
    Darwin) fail "Python 3.11 or later is needed, and there is $found" "brew install python@3.13" ;;
    *) fail "Python 3.11 or later is needed, and there is $found" \
        "sudo apt-get install $package, or name one: PYTHON=/path/to/python3.11 $0" ;;
    esac
}

# Debian and Ubuntu ship Python without the part that makes virtual environments.
need_venv_module() {
    if "$base" -c 'import ensurepip, venv' >/dev/null 2>&1; then return; fi
    package=$("$base" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    if ! command -v apt-get >/dev/null 2>&1; then
        fail "$base lacks the modules venv and ensurepip" "install a Python that has them, and name it: PYTHON=... $0"
    fi
    if [ "$(id -u)" -ne 0 ]; then
        fail "$base cannot make virtual environments" "sudo apt-get install $package, then the same command again"
    fi
    say "installing $package"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null </dev/null ||
        fail "apt-get could not install $package" "apt-get install $package"
}

# $1: runtime or development. The versions are those of requirements-dev.lock, with which the tests passed.
environment() {
    python=$venv/bin/python
    digest=$(cat "$root/pyproject.toml" "$root/requirements-dev.lock" "$root/scripts/environment.sh" | cksum | tr ' ' -)
    stamp=$venv/.mannerly-$1-$digest
    # the folder may have been moved since: then the scripts in it lead nowhere
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$root" ] && "$python" -c '' 2>/dev/null; then return; fi
    find_python
    need_venv_module
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        say "making the virtual environment in $venv"
        "$base" -m venv --clear "$venv" || fail "$base -m venv $venv failed"
    fi
    say "installing what mannerly needs; this happens once"
    rm -f "$venv"/.mannerly-*
    case $1 in
    runtime) install --constraint "$root/requirements-dev.lock" --editable "$root" ;;
    development)
        install --requirement "$root/requirements-dev.lock"
        install --no-deps --no-build-isolation --editable "$root"
        printf '%s' "$root" >"$venv/.mannerly-runtime-$digest"
        ;;
    esac
    printf '%s' "$root" >"$stamp"
}

install() {
    PIP_USER=0 "$python" -m pip install --quiet --disable-pip-version-check --no-input "$@" >&2 </dev/null ||
        fail "pip could not install what is needed" "is the package index reachable? Then the same command again"
}
