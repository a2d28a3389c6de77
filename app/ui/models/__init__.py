"""The view of models: what there is, whether it fits, how downloads go, and what is on this machine."""
