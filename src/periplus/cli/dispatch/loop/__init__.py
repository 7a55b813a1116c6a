"""The command `periplus loop`: `commands` has the table of its actions; `loop_view` shows a loop in lines and as a document."""
