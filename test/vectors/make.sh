#!/usr/bin/env bash
# Writes signature.json: requests as a verifier receives them, and whether the signature holds. Made with OpenSSL alone, so that
# common/protocol/signature.ts is held against another implementation; any language can read the file. Usage: test/vectors/make.sh
# A path with bytes above 127 is written in latin1, one character per byte, as HTTP servers hand it over.
set -euo pipefail
cd "$(dirname "$0")"

KEY=ak_c2lnbmF0dXJlLXZlY3RvcnMta2V5LW5vdC1hLXNlY3JldA
OTHER_KEY=ak_YW5vdGhlci1rZXktdGhhdC1kaWQtbm90LXNpZ24tdGhpcw
TS=1767225600

# hmac KEY BYTES-AS-PRINTF-FORMAT: openssl gets the raw bytes.
hmac() { printf "$2" | openssl dgst -sha256 -mac HMAC -macopt "key:$1" | sed 's/.*= //'; }
sha256() { printf '%s' "$1" | openssl dgst -sha256 | sed 's/.*= //'; }

first=1
# vector VALID NAME KEY TIMESTAMP METHOD TARGET SIGNATURE [KEY_HASH]: TARGET in JSON escapes.
vector() {
  [ "$first" ] || printf ',\n'
  first=
  printf '    {\n      "name": "%s",\n      "valid": %s,\n      "key": "%s",\n      "keyHash": "%s",\n' "$2" "$1" "$3" "${8:-$(sha256 "$3")}"
  printf '      "timestamp": "%s",\n      "method": "%s",\n      "target": "%s",\n      "signature": "%s"\n    }' "$4" "$5" "$6" "$7"
}

{
  printf '{\n  "comment": "Written by test/vectors/make.sh with OpenSSL. target: the request target as received, latin1. The signed message is timestamp LF method LF target without its query string. A vector is valid when keyHash is the lowercase hex SHA-256 of key, and signature is 64 hex characters (any case): HMAC-SHA256 under key.",\n  "vectors": [\n'

  SIG=$(hmac "$KEY" "$TS\nPOST\n/ingest")
  vector true 'metrics' "$KEY" $TS POST /ingest "$SIG"
  vector true 'traces' "$KEY" $TS POST /ingest/traces "$(hmac "$KEY" "$TS\nPOST\n/ingest/traces")"
  vector true 'logs' "$KEY" $TS POST /ingest/logs/otlp "$(hmac "$KEY" "$TS\nPOST\n/ingest/logs/otlp")"
  vector true 'heartbeat' "$KEY" $TS POST /heartbeat "$(hmac "$KEY" "$TS\nPOST\n/heartbeat")"
  vector true 'a GET with an id in its path' "$KEY" $TS GET /api/v1/agents/6f1c/config "$(hmac "$KEY" "$TS\nGET\n/api/v1/agents/6f1c/config")"
  vector true 'another key' "$OTHER_KEY" $TS POST /ingest "$(hmac "$OTHER_KEY" "$TS\nPOST\n/ingest")"
  vector true 'signature in uppercase hex' "$KEY" $TS POST /ingest "${SIG^^}"
  vector true 'query string received, not signed' "$KEY" $TS POST '/ingest?source=a&b=/c' "$SIG"
  vector true 'question mark inside the query string' "$KEY" $TS POST '/ingest?a=?b' "$SIG"
  vector true 'empty query string' "$KEY" $TS POST '/ingest?' "$SIG"
  vector true 'percent-encoding kept' "$KEY" $TS GET '/api/v1/agents/a%2Fb%20c/config' "$(hmac "$KEY" "$TS\nGET\n/api/v1/agents/a%%2Fb%%20c/config")"
  vector true 'double slash kept' "$KEY" $TS POST //ingest "$(hmac "$KEY" "$TS\nPOST\n//ingest")"
  vector true 'dot segments kept' "$KEY" $TS POST /a/../ingest "$(hmac "$KEY" "$TS\nPOST\n/a/../ingest")"
  vector true 'trailing slash kept' "$KEY" $TS POST /ingest/ "$(hmac "$KEY" "$TS\nPOST\n/ingest/")"
  vector true 'bytes above 127 as received' "$KEY" $TS GET '/api/v1/agents/\u00c3\u00a9/config' "$(hmac "$KEY" "$TS\nGET\n/api/v1/agents/\xc3\xa9/config")"
  vector true 'a lone byte above 127, which is no UTF-8' "$KEY" $TS GET '/api/v1/agents/\u00e9/config' "$(hmac "$KEY" "$TS\nGET\n/api/v1/agents/\xe9/config")"

  vector false 'wrong key' "$KEY" $TS POST /ingest "$(hmac "$OTHER_KEY" "$TS\nPOST\n/ingest")"
  vector false 'key of the signer, hash of another' "$KEY" $TS POST /ingest "$SIG" "$(sha256 "$OTHER_KEY")"
  vector false 'key hash as the HMAC key' "$KEY" $TS POST /ingest "$(hmac "$(sha256 "$KEY")" "$TS\nPOST\n/ingest")"
  vector false 'uppercase key hash' "$KEY" $TS POST /ingest "$SIG" "$(sha256 "$KEY" | tr a-f A-F)"
  vector false 'truncated key hash' "$KEY" $TS POST /ingest "$SIG" "$(sha256 "$KEY" | cut -c1-63)"
  vector false 'other method' "$KEY" $TS PUT /ingest "$SIG"
  vector false 'method in lower case signed' "$KEY" $TS POST /ingest "$(hmac "$KEY" "$TS\npost\n/ingest")"
  vector false 'other path' "$KEY" $TS POST /ingest/traces "$SIG"
  vector false 'path in another case' "$KEY" $TS POST /Ingest "$SIG"
  vector false 'trailing slash added' "$KEY" $TS POST /ingest/ "$SIG"
  vector false 'path decoded before signing' "$KEY" $TS GET '/api/v1/agents/a%20c/config' "$(hmac "$KEY" "$TS\nGET\n/api/v1/agents/a c/config")"
  vector false 'hex of percent-encoding in another case' "$KEY" $TS GET '/api/v1/agents/a%2fb/config' "$(hmac "$KEY" "$TS\nGET\n/api/v1/agents/a%%2Fb/config")"
  vector false 'bytes above 127 read as latin1 and signed as UTF-8' "$KEY" $TS GET '/api/v1/agents/\u00c3\u00a9/config' "$(hmac "$KEY" "$TS\nGET\n/api/v1/agents/\xc3\x83\xc2\xa9/config")"
  vector false 'query string signed' "$KEY" $TS POST '/ingest?a=1' "$(hmac "$KEY" "$TS\nPOST\n/ingest?a=1")"
  vector false 'timestamp changed' "$KEY" $((TS + 1)) POST /ingest "$SIG"
  vector false 'timestamp in milliseconds signed' "$KEY" $TS POST /ingest "$(hmac "$KEY" "${TS}000\nPOST\n/ingest")"
  vector false 'timestamp padded with a zero' "$KEY" 0$TS POST /ingest "$SIG"
  vector false 'timestamp with a fraction' "$KEY" $TS.0 POST /ingest "$SIG"
  vector false 'newline at the end of the message' "$KEY" $TS POST /ingest "$(hmac "$KEY" "$TS\nPOST\n/ingest\n")"
  vector false 'carriage returns in the message' "$KEY" $TS POST /ingest "$(hmac "$KEY" "$TS\r\nPOST\r\n/ingest")"
  vector false 'no newlines in the message' "$KEY" $TS POST /ingest "$(hmac "$KEY" "${TS}POST/ingest")"
  vector false 'newline at the end of the key' "$KEY" $TS POST /ingest "$(printf "$TS\nPOST\n/ingest" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$(printf '%s\n' "$KEY" | od -An -tx1 | tr -d ' \n')" | sed 's/.*= //')"
  vector false 'plain SHA-256 of key and message' "$KEY" $TS POST /ingest "$(printf "$KEY$TS\nPOST\n/ingest" | openssl dgst -sha256 | sed 's/.*= //')"
  vector false 'HMAC-SHA1' "$KEY" $TS POST /ingest "$(printf "$TS\nPOST\n/ingest" | openssl dgst -sha1 -mac HMAC -macopt "key:$KEY" | sed 's/.*= //')"
  vector false 'signature in base64' "$KEY" $TS POST /ingest "$(printf "$TS\nPOST\n/ingest" | openssl dgst -sha256 -mac HMAC -macopt "key:$KEY" -binary | openssl base64)"
  vector false 'truncated signature' "$KEY" $TS POST /ingest "${SIG:0:62}"
  vector false 'odd number of hex characters' "$KEY" $TS POST /ingest "${SIG:0:63}"
  vector false 'signature with two characters more' "$KEY" $TS POST /ingest "${SIG}00"
  vector false 'last character changed' "$KEY" $TS POST /ingest "${SIG:0:63}$([ "${SIG:63}" = 0 ] && echo 1 || echo 0)"
  vector false 'last character not hex' "$KEY" $TS POST /ingest "${SIG:0:63}g"
  vector false 'space after the signature' "$KEY" $TS POST /ingest "$SIG "
  vector false 'prefix sha256=' "$KEY" $TS POST /ingest "sha256=$SIG"
  vector false 'empty signature' "$KEY" $TS POST /ingest ''
  vector false '64 zeros' "$KEY" $TS POST /ingest "$(printf '0%.0s' {1..64})"

  printf '\n  ]\n}\n'
} >signature.json.new
mv signature.json.new signature.json
echo "$(grep -c '"name"' signature.json) vectors in $PWD/signature.json"
