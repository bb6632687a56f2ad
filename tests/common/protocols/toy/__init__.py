"""The protocol of the guide as a registered one: its folder has the file of the example, and this card."""
