"""The features of tokens as kernels read them: typed arrays, checked where they come in."""


class IncidenceView:
    """features.incidence.Incidence."""

    def __init__(self, incidence):
        self.keys = incidence.keys
        self.key_ptr = incidence.key_ptr
        self.key_feature = incidence.key_feature
        self.token_ptr = incidence.token_ptr
        self.token_feature = incidence.token_feature
        self.token_value = incidence.token_value
