#!/bin/sh
# Whether a package of the system may be installed: on Debian, as root, and unless that is declined.
# Says what is about to happen, and at a terminal gives time to stop it.
set -eu

package=$1
[ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null || exit 1
if [ -n "${NO_INSTALL:-}" ]; then
    echo "$package is missing, and is not installed: NO_INSTALL is set" >&2
    exit 1
fi
echo "$package is missing; installing it on this system, as root, with apt-get" >&2
echo "  NO_INSTALL=1 declines that" >&2
if [ -t 0 ] && [ -t 2 ]; then
    echo "  Ctrl-C within 5 seconds stops it" >&2
    sleep 5
fi
