"""Grade the submissions of a class to a lab, and write gradebooks and feedback pages.

    python -m grader class SUBMISSIONS --lab BUNDLE --out OUT     # grade all submissions
    python -m grader class SUBMISSIONS --lab 6 --out OUT          # grade the systems of all teams
    python -m grader one SUBMISSION --lab BUNDLE                  # grade one submission
    python -m grader grades OUT --course course.toml              # compute the grades again, without running anything

`collect` finds the submissions, `pool` starts a process for each, `one` judges one submission, and `results` stores
what was found. For lab 6, `teams` says what runs, `checkout` grades one system, and `exploring` explores it. From the
results, `points` and `late` compute scores, `gradebook` and `fill` write tables, and `pages` writes pages for students
and the teacher. A result has no points, so that new points or dates run nothing again.
"""
