"""How every command looks: its help, its errors, its colours, and what ``--json`` means."""
