"""Every client adds all the noise that its users need."""
