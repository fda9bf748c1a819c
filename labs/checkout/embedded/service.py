"""Shared by the three services: a Flask application, and rows that must exist."""

from flask import Flask, abort

GIVEN_UP = "given up"
"""In place of the effect of a checkout attempt: the step was undone, and must never happen again."""


def service(name):
    """Returns the application."""
    app = Flask(name)

    @app.get("/health")
    def health():
        return {}

    return app


def row(rows, kind, name):
    """The row of this kind and id. Aborts with 404 if there is none."""
    found = rows.get(f"{kind} {name}")
    if found is None:
        abort(404, f"there is no {kind} {name}")
    return found
