#!/usr/bin/env bash
# A vault goes to an S3 server and comes back with nothing but its recovery code; a server of the package `moto` stands for the store.
# Everything is compared, and the store is searched for what is in the vault.
set -euo pipefail
cd "$(dirname "$0")/.."
strongroom=$PWD/target/release/strongroom
place=$(mktemp -d)
server=
clean() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$place"
}
trap clean EXIT

if [ ! -d .tools/moto ]; then
    echo "installing an S3 server into .tools"
    python3 -m pip install --quiet --target .tools/moto 'moto[server]' || {
        echo "moto cannot be installed; type: python3 -m pip install --target .tools/moto 'moto[server]'" >&2
        exit 1
    }
fi
export PYTHONPATH=$PWD/.tools/moto
read -r port < <(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
python3 -m moto.server -H 127.0.0.1 -p "$port" > "$place/server.log" 2>&1 &
server=$!
endpoint=http://127.0.0.1:$port
for _ in $(seq 100); do
    curl --silent --output /dev/null "$endpoint" && break
    kill -0 "$server" || { cat "$place/server.log"; exit 1; }
    sleep 0.2
done
curl --silent --fail --output /dev/null -X PUT "$endpoint/bucket"

export AWS_ACCESS_KEY_ID=demo AWS_SECRET_ACCESS_KEY=demo XDG_STATE_HOME=$place/state XDG_CONFIG_HOME=$place/config
url="s3://bucket/vault?endpoint=$endpoint&region=us-east-1"
cd "$place"
"$strongroom" init --key-file key vault > init.txt 2>&1
grep -oE '([A-Z0-9]+-){4,}[A-Z0-9]+' init.txt | head -n 1 > code
cp -r "$OLDPWD/crates" source
mkdir back
head -c $((256 << 20)) /dev/urandom > big
"$strongroom" put source big vault:/ --key-file key
"$strongroom" remote add vault cloud "$url" --key-file key
"$strongroom" push vault --key-file key
"$strongroom" remote check --deep vault --key-file key
echo "the folder of the vault is deleted; only the recovery code is left"
rm -rf vault key
"$strongroom" clone "$url" vault --recovery-code code
"$strongroom" get vault:/source vault:/big back/ --recovery-code code
diff -r source back/source
cmp big back/big
curl --silent "$endpoint/bucket?list-type=2" > listing
for word in Cargo.toml source main.rs; do
    ! grep -q "$word" listing || { echo "the store shows $word" >&2; exit 1; }
done
echo "everything is back, and equal"
