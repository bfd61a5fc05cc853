"""A run on the simulated device: findings as dicts, the verdict, a prediction for a machine that isn't here."""

import tempfile

import plimsoll

with tempfile.TemporaryDirectory() as folder:
    run = plimsoll.measure(["launch"], device="sim", out=folder + "/run")
    for finding in run.findings[:3]:
        print(f"{finding['name']}: {finding['value']:.3g} {finding['unit']}")
    plimsoll.report(run, folder + "/report.html")

verdicts = {device["device"]: device["verdict"] for device in plimsoll.check(device="sim")["devices"]}
print(verdicts)
prediction = plimsoll.predict("x + y", machine="h200", bytes="1GiB", estimate=True)[0]
print(f"{prediction['bandwidth'] / 1e12:.2f} TB/s")
