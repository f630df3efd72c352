#!/bin/sh
# Some tests end a process at each of its file operations, with a library in C that is compiled for
# it, and the compiled codec is built with the headers of Python. On Debian as root both are
# installed; elsewhere say what to install.
set -eu

compiler() {
    command -v cc || command -v gcc || true
}

headers() {
    "${PYTHON:-python3}" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())'
}

complete() {
    [ -n "$(compiler)" ] && headers
}

if complete; then
    exit 0
fi
if sh "$(dirname "$0")/may-install.sh" "gcc or python3-dev"; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev python3-dev >/dev/null
    complete && exit 0
fi
cat >&2 <<'MESSAGE'
The tests compile a small library in C and the codec, and found no compiler, or no headers of Python.
  Debian, Ubuntu:  sudo apt-get install gcc libc6-dev python3-dev
  Fedora, RHEL:    sudo dnf install gcc python3-devel
  macOS:           xcode-select --install
  next: install one, and run make again
MESSAGE
exit 1
