"""A diagnosis for readers: text for the terminal, Markdown for a ticket, JSON for programs."""
