"""Programs that users declare: started contained, asked a case at a time, judged."""
