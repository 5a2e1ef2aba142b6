#!/usr/bin/env bash
# Installs NVIDIA's tritonserver for a CPU, for tests and trials: install.sh DIRECTORY PYTHON
# It comes from the wheel nvidia-pytriton, unpacked. Its Python backend reads no arrays of numpy 2, so the
# models run in an environment of their own, with the packages of PYTHON behind numpy 1. A GPU wants
# NVIDIA's container instead. DIRECTORY/tritonserver then takes tritonserver's arguments.
set -euo pipefail
[ $# = 2 ] || { echo "install.sh DIRECTORY PYTHON" >&2; exit 2; }
mkdir -p "$1"
directory=$(cd "$1" && pwd)
python=$2
project=$(cd "$(dirname "$0")/../.." && pwd)
ask() { "$python" -c "import sysconfig; print(sysconfig.$1)"; }
version=$(ask 'get_python_version()')
packages=$(ask 'get_path("purelib")')
libraries=$(ask 'get_config_var("LIBDIR")')

rm -rf "$directory"/{environment,wheel,server,backends}
"$python" -m venv "$directory/environment"
"$directory/environment/bin/python" -m pip install --quiet --disable-pip-version-check numpy==1.26.4
printf "%s\nimport site; site.addsitedir('%s')\n" "$project" "$packages" \
    > "$directory/environment/lib/python$version/site-packages/firstword-triton.pth"

"$python" -m pip download --quiet --disable-pip-version-check --no-deps -d "$directory/wheel" nvidia-pytriton==0.7.0
"$python" -m zipfile -e "$directory"/wheel/nvidia_pytriton-*.whl "$directory/server"
rm -r "$directory/wheel"
server=$directory/server/pytriton/tritonserver
mkdir -p "$directory/backends/python"
cp "$server"/backends/python/* "$server/python_backend_stubs/$version/triton_python_backend_stub" \
    "$directory/backends/python/"
chmod +x "$server/bin/tritonserver" "$directory/backends/python/triton_python_backend_stub"
cat > "$directory/tritonserver" <<SCRIPT
#!/bin/sh
export PATH="$directory/environment/bin:\$PATH"
export LD_LIBRARY_PATH="$libraries:$directory/server/nvidia_pytriton.libs\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "$server/bin/tritonserver" --backend-directory "$directory/backends" "\$@"
SCRIPT
chmod +x "$directory/tritonserver"
