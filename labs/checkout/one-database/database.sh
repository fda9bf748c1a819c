# database.sh PORT FOLDER: start a PostgreSQL server with its data in FOLDER. After a kill it recovers from its log.
set -e
if [ ! -e "$2/complete" ]; then
    rm -rf "$2" # left incomplete by a kill during initdb
    initdb -D "$2" -U shop --auth trust -E UTF8 --no-locale >/dev/null
    touch "$2/complete"
fi
rm -f "$2/postmaster.pid" # left by a killed server; no other server uses this folder
exec postgres -D "$2" -h 127.0.0.1 -p "$1" -k "" -c max_connections=100 -c log_min_messages=fatal
