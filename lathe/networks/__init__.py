"""Networks that come with Lathe, each with its weights and the script that made them."""
