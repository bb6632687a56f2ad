"""What several protocols are made of."""
