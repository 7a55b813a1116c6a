"""Pages: functions from what a browser asks to what it is shown. None of them knows HTTP."""
