"""Root documents as their holders make, sign and publish them."""
