# SPDX-License-Identifier: Apache-2.0
"""Configuration texts the integration tests share."""


def gateway(provider_port, limits="{}", rules=None, shaping="{start: full}", retry=None,
            extra="", auth="none", classes=None, provider_extra="", deployment_extra="",
            server="{listen: '127.0.0.1:0'}", model="toy-chat"):
    """A gateway with one provider, one deployment and one model profile."""
    lines = [
        f"server: {server}",
        "admin: {listen: '127.0.0.1:0', token: test-admin-token}",
        f"auth: {auth}",
        "providers:",
        f"  scripted: {{kind: openai_compatible, base_url: 'http://127.0.0.1:{provider_port}/v1',"
        f" api_key: 'sk-provider-canary'{', ' + provider_extra if provider_extra else ''}}}",
        "deployments:",
        "  main:",
        "    provider: scripted",
        f"    limits: {limits}",
        f"    shaping: {shaping}",
    ]
    if rules:
        lines.append("    rules:")
        lines += [f"      - {rule}" for rule in rules]
    if retry:
        lines.append(f"    retry: {retry}")
    if deployment_extra:
        lines.append(f"    {deployment_extra}")
    lines += ["models:", f"  {model}: {{deployments: [{{to: main}}]}}"]
    if classes:
        lines.append("classes:")
        lines += [f"  {name}: {value}" for name, value in classes.items()]
    return "\n".join(lines) + "\n" + extra


def emulator(rules, latency="{first_token: 20ms, per_output_token: 1ms}", extra=""):
    """An emulator with the given rules."""
    lines = ["rules:"] + [f"  - {rule}" for rule in rules] + [f"latency: {latency}"]
    return "\n".join(lines) + "\n" + extra
