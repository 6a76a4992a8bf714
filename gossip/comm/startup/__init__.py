"""What happens before the processes know each other, and how they agree to begin."""
