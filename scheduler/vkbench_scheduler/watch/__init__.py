"""What a scheduler does at each turn: schedules, confirmations, bisections, alerts."""
