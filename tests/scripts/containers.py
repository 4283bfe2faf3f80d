"""What a compose file or manifests of Kubernetes say of containers, as JSON for `tests::engine`, in their order:

    containers.py FILE...

Each has: pod, image, argv, env, binds ([folder of the host or of the pod, path, read only]), tmpfs ([path, mode]), user,
caps, read_only, init, host_network. Services: name and port. What is not understood is an error.
"""

import json
import sys

import yaml

KNOWN = {
    "image", "entrypoint", "command", "environment", "network_mode", "cap_drop", "cap_add", "security_opt", "read_only",
    "tmpfs", "volumes", "ulimits", "healthcheck", "depends_on", "user", "ports",
}


def of_compose(name, it):
    assert not set(it) - KNOWN, set(it) - KNOWN
    assert it["cap_drop"] == ["ALL"] and "no-new-privileges" in it["security_opt"]
    binds = [(volume.split(":") + [""])[:3] for volume in it["volumes"]]
    argv = [word.replace("$$", "$") for word in it.get("entrypoint", []) + it["command"]]
    return {
        "pod": name,
        "image": it["image"],
        "argv": argv,
        "env": it["environment"],
        "binds": [[source, path, mode == "ro"] for source, path, mode in binds],
        "tmpfs": [text.split(":mode=") for text in it.get("tmpfs", [])],
        "user": it.get("user", "0"),
        "caps": it.get("cap_add", []),
        "read_only": it["read_only"],
        "init": False,
        "host_network": it.get("network_mode") == "host",
    }


def of_pod(pod, spec):
    volumes = {it["name"]: it for it in spec["volumes"]}

    def source(name):
        volume = volumes[name]
        return volume["hostPath"]["path"] if "hostPath" in volume else f"pods/{pod}/{name}"

    for init, it in [(True, it) for it in spec.get("initContainers", [])] + [
        (False, it) for it in spec["containers"]
    ]:
        security = it["securityContext"]
        assert security["capabilities"]["drop"] == ["ALL"] and not security["allowPrivilegeEscalation"]
        assert security["seccompProfile"]["type"] in ("RuntimeDefault", "Unconfined")
        start = it.get("command") or {"localhost/ulsock": ["/usr/bin/ulsock"]}[it["image"]]
        env = {
            var["name"]: var["value"] if "value" in var else "@" + var["valueFrom"]["fieldRef"]["fieldPath"]
            for var in it.get("env", [])
        }
        yield {
            "pod": pod,
            "image": it["image"],
            "argv": start + it.get("args", []),
            "env": env,
            "binds": [
                [source(mount["name"]), mount["mountPath"], mount.get("readOnly", False)]
                for mount in it["volumeMounts"]
            ],
            "tmpfs": [],
            "user": str(security["runAsUser"]),
            "caps": security["capabilities"].get("add", []),
            "read_only": security["readOnlyRootFilesystem"],
            "init": init,
            "host_network": spec.get("hostNetwork", False),
        }


containers, services = [], []
for file in sys.argv[1:]:
    for it in yaml.safe_load_all(open(file)):
        if "services" in it:
            containers += [of_compose(name, service) for name, service in it["services"].items()]
            continue
        name, kind = it["metadata"]["name"], it["kind"]
        if kind == "Pod":
            containers += of_pod(name, it["spec"])
        elif kind == "DaemonSet":
            containers += of_pod(name, it["spec"]["template"]["spec"])
        elif kind == "Service":
            services.append([name, it["spec"]["ports"][0]["port"]])
        else:
            assert kind == "Namespace", kind
json.dump({"containers": containers, "services": services}, sys.stdout)
