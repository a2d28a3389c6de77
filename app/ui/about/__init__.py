"""What this app is made of and runs on, and a self-check that tries its promises out."""
