"""Who may take part: the devices that joined with an invitation, and those that were removed."""
