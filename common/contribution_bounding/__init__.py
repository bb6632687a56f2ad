"""What bounds one person's part: clipping, weights, who takes part, and levels of her own."""
