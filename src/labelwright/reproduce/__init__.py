"""The experiments of the papers, each from its corpus to a report beside the published figures.

An experiment is a short module that declares its steps (what to train, decode and measure) and turns their results into
rows, figures and claims; `labelwright reproduce NAME` runs it, resumes it step by step, and writes its report.
"""
