"""The weights of dense Llama and Qwen models: in a Hugging Face folder, and in each back end's own tensors."""
