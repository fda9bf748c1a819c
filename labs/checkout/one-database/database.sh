# database.sh PORT FOLDER: a PostgreSQL server whose data is in FOLDER. One that was killed recovers from its log.
set -e
if [ ! -e "$2/complete" ]; then
    rm -rf "$2" # a folder that was half made when somebody killed us
    initdb -D "$2" -U shop --auth trust -E UTF8 --no-locale >/dev/null
    touch "$2/complete"
fi
rm -f "$2/postmaster.pid" # of a killed server: nobody else uses this folder
exec postgres -D "$2" -h 127.0.0.1 -p "$1" -k "" -c max_connections=100 -c log_min_messages=fatal
