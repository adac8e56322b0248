"""The page and its style. Everything it loads comes from the server that served it."""

from __future__ import annotations

# xterm writes its own style elements; nothing else may be loaded, framed or sent anywhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self' data:; "
    "connect-src 'self' ws://{host}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>dlq-console</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="static/css/xterm.css">
<link rel="stylesheet" href="page.css">
<script src="static/js/textual.js"></script>
</head>
<body>
<p class="ended">This console has ended. Load the page again for another one.</p>
<div id="terminal" class="textual-terminal" data-session-websocket-url="ws://{host}{path}ws" data-font-size="16"></div>
</body>
</html>
"""
STYLE = """@font-face { font-family: "Roboto Mono"; src: url("static/fonts/RobotoMono-VariableFont_wght.ttf"); }
html, body { margin: 0; height: 100%; background: #0c181f; overflow: hidden; }
.textual-terminal { width: 100%; height: 100%; }
.ended { display: none; font: 16px "Roboto Mono", monospace; color: #ffffff; padding: 1em; }
body.-closed .ended { display: block; }
body.-closed .textual-terminal { display: none; }
"""


def protections(host: str) -> dict[str, str]:
    """The headers of every answer."""
    return {
        "Content-Security-Policy": POLICY.replace("{host}", host),
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Server": "dlq-console",
    }
