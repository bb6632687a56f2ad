"""What the fork server imports first: from then on it starts like any process of ours. Nobody else imports this."""

from fedboard.client.starting import start_quickly

start_quickly()
