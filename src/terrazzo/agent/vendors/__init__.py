"""One backend per vendor behind one small port (not built yet).

Promise: a wedged or lying vendor library gives ``unknown`` with a reason, never a shorter list of devices.
"""
