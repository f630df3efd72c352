"""PySpark's state variables over dual access, and the handle that gives them out."""
