"""Pre-training: samples while an accelerator computes, and checkpoints until they are durable."""
