"""The recording of a running agent: live steps as payloads of the journal, and the recorder.

The recorder makes each step durable before it acknowledges it. The public face is `recorder.Recorder` and
`live_step.StepMaker`. It lies above `trail.format`.
"""
