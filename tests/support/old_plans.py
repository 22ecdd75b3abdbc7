"""Plans as they were written when they had no limit of dz per registration."""

import hashlib
import json

from pleroma.index import IndexPlan


def without_members(plan: IndexPlan) -> str:
    body = {name: value for name, value in json.loads(plan.dumps()).items() if name not in ("members", "checksum")}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return json.dumps(body | {"checksum": hashlib.sha256(text.encode()).hexdigest()})
