"""Real systems for the integration tests, each started by itself on free ports.

By hand: ``PYTHONPATH=tests .venv/bin/python -m systems hdfs``, after ``make systems``.
"""
