#!/usr/bin/env bash
# Tests a running admin API against its OpenAPI document with schemathesis, which is installed into a virtual
# environment below the user's cache on the first call.
#
#   tools/schemathesis.sh http://127.0.0.1:8080 TOKEN
#
# The document cannot say everything that a request has to be: which fields go together, and that texts have no control
# characters. So a request that fits it may be answered with 422, and that check is left out.
#
# Further arguments go to `schemathesis run`. Exit status 3: there is no Python, or the package cannot be installed.
set -euo pipefail
version=4.32.5
base=${1:?address of the admin server}
token=${2:?token with the role admin}
shift 2
command -v python3 >/dev/null || { echo "python3 is missing" >&2; exit 3; }
venv=${XDG_CACHE_HOME:-$HOME/.cache}/outrider/schemathesis-$version
if [ ! -x "$venv/bin/schemathesis" ]; then
	{ python3 -m venv "$venv" && "$venv/bin/pip" install -q "schemathesis==$version"; } >&2 || { rm -rf "$venv"; exit 3; }
fi
exec "$venv/bin/schemathesis" run "$base/api/v1/openapi.json" --url "$base" -H "Authorization: Bearer $token" --no-color --exclude-checks positive_data_acceptance "$@"
