"""A few labelled sentences and templates of every kind, for models small enough to enumerate."""

X = [["the", "dog", "barks"], ["a", "bird"], ["birds", "sing"], ["the", "bird", "sings"], ["dogs"]]
Y = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP"], ["B-NP", "O"], ["B-NP", "I-NP", "O"], ["B-NP"]]
LABELS = ["B-NP", "I-NP", "O"]
STATES = "U1:%x[0,0]\nU2:%x[-1,0]\nB"
ARCS = "U:%x[0,0]\nU:%x[-1,0]\nB:%x[0,0]"
TRIPLES = "U:%x[0,0]\nU:%x[-1,0]\nB:%x[0,0]\nT:%x[-1,0]"
NEW = ["the", "bird", "zzz", "barks"]
