"""The service as a process of its own: arguments are its folder, a topology, and settings as JSON."""

import json
import sys
from pathlib import Path

from pleroma.routing import build
from pleroma.service import Deployment, ServiceSettings, serve

serve(Path(sys.argv[1]), build(sys.argv[2]), Deployment(port=0, settings=ServiceSettings(**json.loads(sys.argv[3]))))
