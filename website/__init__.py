"""Publishes the notebooks and the documentation as a static website: ``make site``.

    python -m website                      run the notebooks, and write the site to build/site
    python -m website 01 02                only these notebooks
    python -m website --out FOLDER         write to another folder
    python -m website --executed FOLDER    take executed notebooks from this folder, and run nothing

Each notebook runs at SCALE=small. An executed notebook is kept in the cache, and is not run again until it or the
library changes. So an interrupted build continues where it stopped. The site replaces the previous one at the end, as
a whole. Its pages need no network access and no kernel: predictions are judged and charts are drawn by scripts of the
site, and a stepper has its whole recording. Without scripts, answers are folded, and charts and steppers are tables.
Only the search needs a web server, because browsers do not load its index from a file:

    python -m http.server --bind 127.0.0.1 --directory build/site

Modules, from the bottom: ``github_markdown`` rewrites Markdown and links for MkDocs; ``npm`` finds Node.js, and
``plotly`` fetches plotly.js; ``progress`` shows how far a build is; ``execution`` runs notebooks; ``lesson`` turns an
executed notebook into a page; ``links`` finds broken links; ``publish`` builds the site. ``picture`` draws the pictures
of README.md.
"""
