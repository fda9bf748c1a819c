"""The PostgreSQL shop behind two gunicorn workers, each with one request and one connection at a time."""

import json

import app as shop
from psycopg import errors

WORDS = {200: "200 OK", 400: "400 Bad Request", 503: "503 Service Unavailable"}

with shop.connect() as first:
    try:
        first.execute(shop.TABLES)
    except (errors.UniqueViolation, errors.DuplicateTable):
        first.rollback()  # the other worker has made them meanwhile


def app(environ, start_response):
    words = environ["PATH_INFO"].strip("/").split("/")
    status, body = (200, {}) if words == ["health"] else shop.reply(environ["REQUEST_METHOD"], words)
    raw = json.dumps(body).encode()
    start_response(WORDS[status], [("Content-Type", "application/json"), ("Content-Length", str(len(raw)))])
    return [raw]
