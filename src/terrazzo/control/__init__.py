"""The control service: admission webhook, scheduler extender, reconciler.

Promise: turns watch events into ledger events and ledger instructions into API calls, and holds no truth of its
own: kill it at any instant and the API server still knows everything.
"""
