"""The HTTP listener, off unless `http.listen` is set: the page, the API, webhooks, health and metrics.

Nothing here is imported while it is off, since FastAPI and uvicorn take half a second to import.
"""
