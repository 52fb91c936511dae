"""The models: scikit-learn estimators over lists of sequences."""
