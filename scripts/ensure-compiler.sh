#!/bin/sh
# Some tests end a process at each of its file operations, with a library in C that is compiled for
# it. On Debian as root a compiler is installed; elsewhere say what to install.
set -eu

compiler() {
    command -v cc || command -v gcc || true
}

if [ -n "$(compiler)" ]; then
    exit 0
fi
if sh "$(dirname "$0")/may-install.sh" gcc; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev >/dev/null
    [ -n "$(compiler)" ] && exit 0
fi
cat >&2 <<'MESSAGE'
The tests compile a small library in C, and found no compiler.
  Debian, Ubuntu:  sudo apt-get install gcc libc6-dev
  Fedora, RHEL:    sudo dnf install gcc
  macOS:           xcode-select --install
  next: install one, and run make again
MESSAGE
exit 1
