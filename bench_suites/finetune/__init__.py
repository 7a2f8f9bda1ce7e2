"""Fine-tuning: the base model, adapters, and optimiser state on storage."""
