# make lab     everything for a lesson: environment, doctor, JupyterLab in work/
# make test    everything that is tested: environment, all tests, notebooks included
# make help    the other targets
#
# PYTHON=/path/to/python3.12 chooses the Python. Without it, uv takes one from 3.11 to 3.14, or fetches one. An
# environment that is complete is used as it is.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help lab example test slow doctor check format site lock clean

export PYTHON
unexport PYTHONPATH PYTHONHOME PYTHONPLATLIBDIR PYTHONOPTIMIZE MAKEFLAGS

SETUP := p=$$(for p in python3 "$$PYTHON" python3.12 python; do "$$p" -c "" 2>/dev/null && echo "$$p" && break; done); \
	exec "$${p:-python3}" -I setup/environment.py
VENV := .venv/bin/python

help:  ## what can be made
	@sed -n 's/^\([a-z]*\):  *## /make \1	/p' Makefile | expand -t 16

lab:  ## environment, doctor, then JupyterLab in your folder, work/
	@$(SETUP) run
	@$(VENV) -m sharedstate_lite.doctor.lab --watch-parent

example:  ## one view under the three strategies, message by message, in the terminal
	@$(SETUP) run
	@$(VENV) -m sharedstate_lite.lessons.demo

test:  ## environment, then all tests at SCALE=small; ARGS="-k words" passes options to pytest
	@$(SETUP) dev
	@$(VENV) -m sharedstate_lite.doctor.loops
	@$(VENV) -m pytest -n 4 $(ARGS)

slow: export SCALE := full
slow:  ## the tests marked slow, at SCALE=full
	@$(SETUP) dev
	@$(VENV) -m sharedstate_lite.doctor.loops
	@$(VENV) -m pytest -m slow $(ARGS)

doctor:  ## is this machine ready? ARGS=--spark starts Spark too
	@$(SETUP) run
	@$(VENV) -m sharedstate_lite.doctor $(ARGS)

check:  ## lint, format, types and walls, without the other tests
	@$(SETUP) dev
	@$(VENV) -m pytest tests/project/test_lint.py $(ARGS)

format:  ## format the sources
	@$(SETUP) dev
	@$(VENV) -m ruff format .

site:  ## run the notebooks and write them as web pages to build/site; ARGS="01 02" takes only these
	@$(SETUP) dev
	@$(VENV) -m website $(ARGS)

lock:  ## resolve the locked packages anew after a change of pyproject.toml; UPGRADE=1 takes newer ones
	@python3 setup/lock.py

clean:  ## remove the environment, the caches and what builds leave; nothing else, so work/ stays
	@rm -rf .venv .cache build dist *.egg-info
	@find . -name .git -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
