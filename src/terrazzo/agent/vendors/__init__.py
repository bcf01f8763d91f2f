"""One backend per vendor behind one small port.

Promise: a wedged or lying vendor library gives a ``Failure`` with a reason, never a shorter list of devices.
"""
