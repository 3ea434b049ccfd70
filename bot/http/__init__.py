"""The HTTP listener, off unless `http.listen` is set: health and metrics for monitoring.

Nothing here is imported while it is off, for FastAPI and uvicorn take half a second.
"""
