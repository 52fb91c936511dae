"""A service over HTTP: models by name, labels with probabilities, explanations, metrics, Label
Studio's ML backend.

    request -> bodies (checked) -> batching (one thread for each model asks once for all who wait)
    -> facts -> JSON

FastAPI and uvicorn, of the extra `serve`, are imported in `app.py` alone, when a service is
made."""
