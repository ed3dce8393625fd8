"""What `observer compare` says, worked out from `observer export --format jsonl`: medians of throughput, retransmit rate
and mean RTT by algorithm. Reads JSON Lines of several recordings (arguments), writes JSON."""

import json
import statistics
import sys
from collections import defaultdict

SECOND = 10**9


def flows(path):
    """Per flow: its algorithm and its samples, as exported."""
    found, algorithm, born, ended = defaultdict(list), {}, {}, {}
    with open(path) as lines:
        for line in map(json.loads, lines):
            flow = (line.get("flow") or {}).get("id")
            kind = line["type"]
            if kind == "opened" and line["from_start"]:
                born[flow] = line["mono_ns"]
            elif kind == "note" and line.get("kind") == "attributes":
                cc = line["cc"]
                algorithm[flow] = cc["name"] + ("/" + cc["version"] if cc.get("version") else "")
            elif kind == "sample":
                found[flow].append(line)
            elif kind == "closed":
                ended[flow] = line["mono_ns"]
            last = line["mono_ns"]
    for flow, samples in found.items():
        yield algorithm.get(flow), samples, born.get(flow), ended.get(flow, last)


def figures(samples, born, end):
    first, last = samples[0], samples[-1]
    zero = {"mono_ns": born, "bytes_acked": 0, "bytes_sent": 0, "bytes_retrans": 0, "rtt_us": first["rtt_us"]}
    before = zero if born is not None else first
    start = before["mono_ns"]
    rise = lambda key: last[key] - before[key]
    weighted = known = 0
    for old, new in zip([before] + samples, samples + [dict(last, mono_ns=end)]):
        # A second before the newer one things became as it says; earlier they were as the older one says.
        turn = max(old["mono_ns"], new["mono_ns"] - SECOND)
        for rtt, ns in ((old["rtt_us"], turn - old["mono_ns"]), (new["rtt_us"], new["mono_ns"] - turn)):
            if rtt is not None:
                weighted, known = weighted + rtt * ns, known + ns
    return {
        "bytes_acked": rise("bytes_acked"),
        "throughput_bps": rise("bytes_acked") * 8 * SECOND / (end - start),
        "retrans_rate": rise("bytes_retrans") / rise("bytes_sent"),
        "mean_rtt_us": weighted / known,
    }


def main(paths):
    groups = defaultdict(list)
    for path in paths:
        all_flows = [(cc, figures(*rest)) for cc, *rest in flows(path)]
        delivered = sum(each["bytes_acked"] for _, each in all_flows)
        for cc, each in all_flows:
            if each["bytes_acked"] * 100 >= delivered:
                groups[cc].append(each)
    table = {}
    for cc, runs in groups.items():
        table[cc] = {"runs": len(runs)}
        for key in ("throughput_bps", "retrans_rate", "mean_rtt_us"):
            values = [run[key] for run in runs]
            table[cc][key] = [statistics.median(values), min(values), max(values)]
    json.dump(table, sys.stdout)


main(sys.argv[1:])
