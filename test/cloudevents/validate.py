#!/usr/bin/python3
"""Reads one JSON value per line and says of each whether it is a CloudEvent."""
import json
import os
import sys

import jsonschema

with open(os.path.join(os.path.dirname(__file__), "cloudevents.json")) as f:
    validator = jsonschema.Draft7Validator(json.load(f))
for line in sys.stdin:
    errors = [e.message for e in validator.iter_errors(json.loads(line))]
    print(errors[0] if errors else "valid")
