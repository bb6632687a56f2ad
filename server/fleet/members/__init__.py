"""Who may take part: the devices of the settings, and those that joined with an invitation."""
