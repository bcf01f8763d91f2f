"""Pod and policy in; patch, warnings or refusal out.

Promise: pure, and idempotent: admitting an admitted pod changes nothing. A refusal is one sentence that says what
to write instead.
"""

from terrazzo.admission.review import Admitted, Refused, decide
from terrazzo.admission.summary import FleetSummary, summarise

__all__ = ["Admitted", "FleetSummary", "Refused", "decide", "summarise"]
