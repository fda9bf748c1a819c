"""Which modules of the grader a student's copy of a lab contains: those that `check`, `break` and checks.py import."""

FILES = tuple(
    f"{name}.py"
    for name in (
        *("__init__", "__main__", "errors", "folders", "outcomes", "proc", "statuses", "toml"),
        *("lab/__init__", "lab/breaking", "lab/checks", "lab/judge", "lab/reading", "lab/small", "lab/source"),
        *("student/__init__", "student/breaks", "student/command", "student/cpu", "student/files", "student/folder"),
        "student/local",
        *("submission/__init__", "submission/archive", "submission/model", "submission/places", "submission/reading"),
        "submission/upload",
        *(
            "worker/__init__",
            "worker/allowance",
            "worker/answers",
            "worker/child",
            "worker/objects",
            "worker/process",
            "worker/protocol",
        ),
    )
)
"""Their paths below the folder ``grader``. They need the standard library only."""
