"""Prometheus can read what a scheduler says, and the docs and the dashboard name what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families as parsed
from prometheus_client.samples import Sample

from cluster import Lab, free_port, until
from vkbench_db.work import store

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/metrics.md").read_text()
DASHBOARD = json.loads((ROOT / "docker/grafana/vkbench.json").read_text())
NAME = re.compile(r"\b(?:vkbench|process)_[a-z_]+")
MAIN = "from vkbench_cli.main import main; raise SystemExit(main())"


def scraped(port: int) -> dict[str, list[Sample]]:
    """The samples of each name."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        found: dict[str, list[Sample]] = {}
        for family in parsed(answer.read().decode()):
            for sample in family.samples:
                found.setdefault(sample.name, []).append(sample)
        return found


def value(found: dict[str, list[Sample]], name: str, /, **labels: str) -> float:
    [one] = [each for each in found[name] if labels.items() <= each.labels.items()]
    return one.value


def test_a_scrape_says_what_the_fleet_does(lab: Lab) -> None:
    port = free_port()
    lab.start("-c", MAIN, "scheduler", "--metrics", str(port), log="scheduler")
    lab.start_worker()
    key = lab.key("a")
    run = lab.submit(["sleep/f32/n20"] * 5 + ["segfault/f32/n1"])
    lab.await_end(run)
    lab.redis.client.xadd("vk:results", {"r": "no result"})
    with lab.database.transaction() as tx:
        store.pause(tx, key, store.Pause())
    waiting = lab.submit(["sleep/f32/n20"] * 3)
    until(lambda: value(scraped(port), "vkbench_messages_refused_total", kind="result"), "none")
    found = scraped(port)
    assert value(found, "vkbench_attempts_total", device=key, outcome="passed") == 5
    assert value(found, "vkbench_attempts_total", device=key, outcome="crashed") == 3
    assert value(found, "vkbench_device_busy_seconds_total", device=key) >= 0.1
    assert value(found, "vkbench_jobs", device=key, state="queued") == 3
    assert value(found, "vkbench_jobs_dispatched_total", device=key) == 8
    assert value(found, "vkbench_device_up", device=key) == 1
    assert value(found, "vkbench_device_paused", device=key) == 1
    assert value(found, "vkbench_device_info", device=key, host="lab", name="planted a") == 1
    assert value(found, "vkbench_oldest_job_age_seconds") > 0
    assert value(found, "vkbench_last_record_timestamp_seconds") > 1e9
    assert value(found, "vkbench_results_stream_length") == 0
    assert value(found, "vkbench_regressions_open", direction="slower", cause="build") == 0
    assert {each.labels["thread"] for each in found["vkbench_thread_silent_seconds"]} == {
        *("dispatch", "collect", "watch", "alert")
    }
    assert waiting

    told = {name for name in found if not name.endswith("_created")}
    documented = set(NAME.findall(PAGE))
    assert {name for name in told if name.startswith("vkbench_")} <= documented
    assert documented <= told
    variables = DASHBOARD["templating"]["list"]
    asked = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    asked += [variable["query"] for variable in variables if variable["type"] == "query"]
    assert all(NAME.findall(expression) for expression in asked)
    assert {name for expression in asked for name in NAME.findall(expression)} <= told

    lab.redis.kill()
    without = scraped(port)
    assert value(without, "vkbench_redis_up") == 0
    assert value(without, "vkbench_jobs", device=key, state="queued") == 3


def test_a_place_that_is_none_is_refused(lab: Lab) -> None:
    refused = lab.start("-c", MAIN, "scheduler", "--metrics", "here", log="refused")
    assert refused.wait(30) == 2
    assert "'here' is no [HOST:]PORT" in (lab.folder / "refused.log").read_text()
