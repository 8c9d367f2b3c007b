"""Several processes that train together: how they are started, how they meet, and how they answer as one trial."""
