#!/usr/bin/env bash
# A whole fleet on this machine: a server, two gateways of 1 500 people each, and ann with a device of her own; a
# trained and signed board, recommendations on her device. Usage: quickstart.sh [FOLDER [PORT]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fleet=${1:-fleet-demo}
port=${2:-8443}

# People and their ratings; then keys, fleet.toml and ann's device, which is a member already.
python "$here/people.py" "$fleet"
fedboard fleet init "$fleet" --name films --data-catalogue "$fleet/catalogue.csv" --devices 1 \
    --address "127.0.0.1:$port"
fedboard ratings import "$fleet/ann.csv" --device "$fleet/device/device.toml"

# The settings of this fleet: it has room for gateways. They join with an invitation each.
sed "s/8443/$port/; s/8444/$((port + 1))/" "$here/fleet.toml" >"$fleet/fleet.toml"
export FEDBOARD_FLEET="$fleet/fleet.toml"
fedboard server --check
for gateway in gateway-a gateway-b; do
    fedboard fleet invite $gateway --users 2000 --out "$fleet/$gateway.invite"
done

# The server trains, and ends when it is done. (Without --until-trained it stays.) All ends with this script.
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
fedboard server --until-trained &
server=$!
until fedboard client join --invitation "$fleet/gateway-a.invite" --out "$fleet/gateway-a" 2>/dev/null; do sleep 0.5; done
fedboard client --config "$fleet/gateway-a/device.toml" >"$fleet/gateway-a.log" 2>&1 &
fedboard client join --invitation "$fleet/gateway-b.invite" --out "$fleet/gateway-b" --run >"$fleet/gateway-b.log" 2>&1 &
fedboard client --config "$fleet/device/device.toml" >"$fleet/ann.log" 2>&1 &
wait $server

# Publish: a folder that any web server can serve; ann verifies what she fetches from it.
run="$fleet/state/runs/films"
fedboard board export "$run" --to "$fleet/mirror" --key "$fleet/keys/boards.key" --roots "$fleet/keys/roots"
fedboard board fetch "$fleet/mirror" --key "$fleet/keys/roots/1.root.json" --to "$fleet/device/boards"
fedboard certificate verify "$run"

# On ann's device: what she gets, and what she gave.
fedboard recommend "$fleet/device/device.toml" -k 5
fedboard status --device "$fleet/device/device.toml"
