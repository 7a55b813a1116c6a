"""The recording of a running agent: a live step as a payload of the journal, and the recorder, which makes each step durable before it acknowledges it.

The public face is `recorder.Recorder` and `live_step.StepMaker`. It lies above `trail.format`.
"""
