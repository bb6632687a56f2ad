#!/usr/bin/env bash
# A whole fleet on this machine: keys, a server, three devices with different people's ratings, a trained and signed
# board, recommendations on one device. Usage: quickstart.sh [FOLDER [PORT]]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fleet=${1:-fleet-demo}
port=${2:-8443}
devices="gateway-a gateway-b ann"

# Keys: an authority for the fleet, the server's certificate, a key per device, one that signs questions and one that
# signs boards. Every device gets authority.pem and question-signing.pub.
fedboard keys authority --out "$fleet/keys" --name films
fedboard keys server --out "$fleet/keys" --name 127.0.0.1
for device in $devices; do fedboard keys node node --out "$fleet/$device"; done
fedboard keys questions --out "$fleet/keys"
fedboard keys board --out "$fleet/keys"

# People and their ratings; ann keeps hers in a store of her own.
fedboard ratings init "$fleet/ann" --epsilon 6 --delta 1e-5
python "$here/people.py" "$fleet" "$port"
fedboard ratings import "$fleet/ann/ann.csv" --device "$fleet/ann/device.toml"

# The devices wait for the server; everything started here ends with this script.
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
for device in $devices; do
    fedboard client --config "$fleet/$device/device.toml" >"$fleet/$device/client.log" 2>&1 &
done

# The server trains, and ends when it is done. (Without --until-trained it stays.)
fedboard server --config "$fleet/fleet.toml" --until-trained

# Publish: sign the boards into a folder that any web server can serve; ann fetches and verifies the newest.
fedboard board export "$fleet/state/runs/films" --to "$fleet/mirror" --key "$fleet/keys/board-signing.key"
fedboard board fetch "$fleet/mirror" --key "$fleet/keys/board-signing.pub" --to "$fleet/ann/boards"
fedboard certificate verify "$fleet/state/runs/films"

# On ann's device: what she gets, and what she gave.
fedboard recommend "$fleet/ann/device.toml" "$fleet/ann/boards" -k 5
fedboard status --device "$fleet/ann/device.toml"
