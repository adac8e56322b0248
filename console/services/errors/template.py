"""An error's text without the long numbers, times and ids in it, so that equal failures are judged once. Pure.

What is left out never decides a group or a category: `fingerprint` hides it, and no rule of `category` reads it.
"""

import re
from typing import Final

LONGEST: Final = 1_024  # longer texts differ in more than their numbers, and would fill the memory
_NUMBER: Final = "0000000000"  # too long for any code
# Every branch begins with a digit, so that the regex engine skips words quickly.
_VARYING: Final = re.compile(
    r"""[0-9](?<![0-9A-Za-z_#][0-9])(?:
      (?<!P/[0-9])[0-9]*(?:[.,][0-9]+)+  # but not HTTP/1.1
    | [0-9]{9,}
    | [0-9]{3}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?
    | x[0-9a-f]{8,}
    | [0-9a-f]{7}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
    | [0-9a-f]{11,}
    )(?![0-9A-Za-z_])""",
    re.VERBOSE | re.ASCII,
)


def template(text: str) -> str:
    return _VARYING.sub(_NUMBER, text)
