"""What an operator puts beside a server: service units, container, reverse proxy, dashboard, alerts."""
