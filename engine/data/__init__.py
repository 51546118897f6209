"""Plain data that every floor may use: requests, events, figures, errors, folders."""
