"""The Hugging Face hub: requests to it, its answers, and its refusals as errors."""
