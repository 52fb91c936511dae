"""Template lines that read the labels of the layer below: one feature for every candidate, or pair of candidates."""

from labelwright.kernels import kernel


@kernel
def _cell(offsets, n, t, row, ptr, reach):
    """What a cell reads at token t of sentence n: (number of the boundary mark or -1, first slot, slots)."""
    at, T = t + row, offsets[n + 1] - offsets[n]
    if at < 0:
        return -at - 1, 0, 1
    if at >= T:
        return reach + at - T, 0, 1
    g = offsets[n] + at
    return -1, ptr[g], ptr[g + 1] - ptr[g]


@kernel
def count_alternatives(offsets, ptr, row, pair, reach, sizes):
    """sizes[t] = how many features a line has at token t that reads the labels at `row` (and, if `pair`, the next)."""
    for n in range(offsets.shape[0] - 1):
        for t in range(offsets[n + 1] - offsets[n]):
            size = _cell(offsets, n, t, row, ptr, reach)[2]
            if pair:
                size *= _cell(offsets, n, t, row + 1, ptr, reach)[2]
            sizes[offsets[n] + t] = size


@kernel
def alternatives(offsets, ptr, pair_ptr, number, row, pair, reach, first, second, slot):
    """Token by token: the numbers of the labels read (marks first, then labels) and the slot that weights the feature;
    -1 where both cells lie outside the sentence.  number [n] is that of the label in each slot, -1: unknown."""
    i = 0
    for n in range(offsets.shape[0] - 1):
        for t in range(offsets[n + 1] - offsets[n]):
            mark, a, size = _cell(offsets, n, t, row, ptr, reach)
            next_mark, b, next_size = -1, 0, 1
            if pair:
                next_mark, b, next_size = _cell(offsets, n, t, row + 1, ptr, reach)
            for j in range(size):
                for k in range(next_size):
                    first[i] = mark if mark >= 0 else number[a + j]
                    if pair:
                        second[i] = next_mark if next_mark >= 0 else number[b + k]
                    inside, next_inside = mark < 0, pair and next_mark < 0
                    if inside and next_inside:
                        slot[i] = pair_ptr[offsets[n] + t + row + 1] + j * next_size + k
                    elif inside:
                        slot[i] = a + j
                    elif next_inside:
                        slot[i] = b + k
                    else:
                        slot[i] = -1
                    i += 1


@kernel
def merge_features(base_ptr, base_feature, ptr, feature, slot, constant, out_ptr, out_feature, out_slot):
    """The features of each token itself, then those that the layer below gives it; the former have the slots
    `constant`, `constant` + 1, ..., or -1 where that is negative."""
    i = 0
    for t in range(base_ptr.shape[0] - 1):
        for j in range(base_ptr[t], base_ptr[t + 1]):
            out_feature[i] = base_feature[j]
            out_slot[i] = constant + j if constant >= 0 else -1
            i += 1
        for j in range(ptr[t], ptr[t + 1]):
            if feature[j] >= 0:
                out_feature[i] = feature[j]
                out_slot[i] = slot[j]
                i += 1
        out_ptr[t + 1] = i
