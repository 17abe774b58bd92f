"""The modes of bench.py, a module each."""
