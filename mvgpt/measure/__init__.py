"""The instruments. They know the model; the model does not know them."""
