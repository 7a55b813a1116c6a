"""Task folders of Cline, and of Roo Code and Kilo Code, which are based on it.

`files` knows and reads a task's conversation; `conversation` turns its messages into steps. Older versions write calls
as XML within the model's text (`xml_calls`) and results as text (`user_texts`). `requests` reads the times and tokens
of the model's answers from the display beside the conversation, `tools` names the tools as other agents do.
"""
