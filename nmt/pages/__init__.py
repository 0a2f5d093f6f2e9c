"""What a browser shows: the report, and a run behind HTTP. Each page is one file with its style and script."""

import base64
import hashlib


def policy(style: str, script: str, *others: str) -> str:
    """Return a content security policy that allows one inlined style, one inlined script, and what ``others`` say."""
    style, script = (
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (style, script)
    )
    rules = (
        "default-src 'none'",
        f"style-src {style}",
        f"script-src {script}",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join((*rules, *others))
