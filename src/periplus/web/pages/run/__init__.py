"""The page of a session of our own agent: its turns and steps, what the model saw at each, what it cost, while it runs and afterwards."""
