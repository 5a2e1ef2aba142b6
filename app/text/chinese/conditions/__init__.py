"""Where a rule of Chinese is meant, from the words beside what it found, by subject."""
