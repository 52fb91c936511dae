"""Training on a GPU, or wherever else PyTorch computes."""
