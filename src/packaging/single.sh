#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# rocmcrash @VERSION@ in one file: needs sh, tar and gzip. The first run unpacks it into a folder that
# belongs to you alone, below ROCMCRASH_UNPACK, XDG_CACHE_HOME or ~/.cache; later runs find it there.
set -u
if [ -n "${ROCMCRASH_UNPACK:-}" ]; then above=$ROCMCRASH_UNPACK
elif [ -n "${XDG_CACHE_HOME:-}" ]; then above=$XDG_CACHE_HOME/rocmcrash
else above=${HOME:-/nonexistent}/.cache/rocmcrash
fi
place=$above/@VERSION@-@SUM@
fail() { echo "rocmcrash: $1" >&2; exit 125; }
mine() { [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]; }
if [ ! -x "$place/bin/rocmcrash" ]; then
    mask=$(umask)
    umask 077
    mkdir -p "$above" 2>/dev/null || fail "cannot make '$above': name a folder by ROCMCRASH_UNPACK"
    mine "$above" || fail "'$above' is not yours: name a folder by ROCMCRASH_UNPACK"
    part=$(mktemp -d "$above/part.XXXXXX") || fail "cannot write to '$above'"
    sed '1,/^__PAYLOAD__$/d' "$0" | gzip -dc 2>/dev/null | tar -xf - -C "$part" || {
        rm -rf "$part"
        fail "cannot unpack into '$above'"
    }
    mv "$part/@NAME@" "$place" 2>/dev/null # another run may have been first
    rm -rf "$part"
    umask "$mask"
fi
mine "$place" || fail "'$place' is not yours: name a folder by ROCMCRASH_UNPACK"
# shellcheck disable=SC2093,SC2317 # what follows is no script
exec "$place/bin/rocmcrash" "$@"
exit 125
