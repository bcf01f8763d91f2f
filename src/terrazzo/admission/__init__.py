"""Pod and policy in; patch, warnings or refusal out.

Promise: pure, and idempotent: admitting an admitted pod changes nothing. A refusal is one sentence that says what
to write instead.
"""
