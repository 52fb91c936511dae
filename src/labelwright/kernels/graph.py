"""The graph of a state space as kernels read it: typed arrays, checked where they come in."""


class BlocksView:
    """structures.states.Blocks."""

    def __init__(self, blocks):
        self.source_ptr = blocks.source_ptr
        self.source = blocks.source
        self.target = blocks.target
        self.arc_ptr = blocks.arc_ptr
        self.rows = blocks.rows


class ContextsView:
    """structures.states.Contexts."""

    def __init__(self, contexts):
        self.opening = contexts.opening
        self.following = contexts.following
        self.label = contexts.label
        self.ptr = contexts.ptr
        self.node = contexts.node
        self.slot = contexts.slot
        self.block = contexts.block
        self.base = contexts.base
        self.cut = contexts.cut


# -- the last views, which the sentences of a model share: to make one takes as long as a short loop


LAST = {"blocks": (None, None), "contexts": (None, None)}


def blocks_view(blocks):
    """BlocksView(blocks)."""
    last = LAST["blocks"]
    if last[0] is blocks:
        return last[1]
    view = BlocksView(blocks)
    LAST["blocks"] = blocks, view
    return view


def contexts_view(contexts):
    """ContextsView(contexts)."""
    last = LAST["contexts"]
    if last[0] is contexts:
        return last[1]
    view = ContextsView(contexts)
    LAST["contexts"] = contexts, view
    return view
