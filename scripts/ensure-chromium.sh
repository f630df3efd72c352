#!/bin/sh
# A test opens the dry run's page in a browser. On Debian as root Chromium is installed; elsewhere
# say what to install.
set -eu

browser() {
    for name in chromium chromium-browser google-chrome; do
        command -v "$name" && return
    done
    return 0
}

if [ -n "$(browser)" ]; then
    exit 0
fi
if sh "$(dirname "$0")/may-install.sh" chromium; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
    [ -n "$(browser)" ] && exit 0
fi
cat >&2 <<'MESSAGE'
The tests open a page in Chromium, and found neither it nor Chrome.
  Debian:          sudo apt-get install chromium
  Ubuntu:          sudo snap install chromium
  Fedora, RHEL:    sudo dnf install chromium
  macOS, others:   put `chromium` or `google-chrome` on the PATH
  next: install one, and run make again
MESSAGE
exit 1
