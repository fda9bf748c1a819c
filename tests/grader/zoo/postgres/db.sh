# db.sh PORT FOLDER: a PostgreSQL server of our own; a half-made folder is made again.
set -e
if [ ! -e "$2/made" ]; then
  rm -rf "$2"
  initdb -D "$2" -U shop --auth trust -E UTF8 --no-locale >/dev/null
  touch "$2/made"
fi
rm -f "$2/postmaster.pid" # nobody else uses the folder: what is there is of a killed one
exec postgres -D "$2" -h 127.0.0.1 -p "$1" -k "" -c max_connections=400 -c log_min_messages=fatal
