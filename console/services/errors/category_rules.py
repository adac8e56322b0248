"""The rules that map words, HTTP statuses and venue codes to a category. Data only; `category` does the matching."""

from dataclasses import dataclass
from typing import Final, Literal

Category = Literal["transient", "schema", "business", "integration"]
Reach = Literal["no", "maybe"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Matches if the lower-cased text contains one of `words`, one of `statuses` (HTTP) or one of `codes` (negative
    venue codes), and none of `unless`. `among` also requires one of these statuses. `own_words` also requires a
    message or code of the venue's own in the error body, because a bare status proves nothing.
    """

    name: str
    category: Category
    reach: Reach
    next_step: str
    words: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    codes: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    among: frozenset[int] = frozenset()
    own_words: bool = False


# What shows, before, behind or around a number, that it is an HTTP status.
STATUS_LEADS: Final = (
    "http ", "http-", "http", "http/1.0 ", "http/1.1 ", "http/2 ", "status ", "status: ", "status code ",
    "status code: ", "status=", "status_code=", "status_code: ", "too many ", "returned ", "answered ",
)  # fmt: skip
STATUS_KEYS: Final = ('code":', "code':", 'status":', "status':")
STATUS_TAILS: Final = (
    " client error", " server error", " bad request", " unauthori", " forbidden", " not found", " conflict",
    " unprocess", " too many", " too early", " internal server", " bad gateway", " service unav", " gateway time",
    " request time", " i'm a teapot",
)  # fmt: skip
# Under these keys an error body has the venue's own words, unless they are nothing but these; and what dumps headers.
BODY_KEYS: Final = (
    "message", "msg", "retmsg", "ret_msg", "smsg", "error", "errors", "error_message", "detail", "details", "reason",
    "code", "label", "header", "multidictproxy",
)  # fmt: skip
NO_WORDS: Final = frozenset(
    ("bad request", "unauthorized", "forbidden", "not found", "conflict", "unprocessable entity", "method not allowed",
     "not acceptable", "gone", "error", "failed", "failure", "rejected", "null", "none")
)  # fmt: skip

# `dlq reconcile` settles the console's own attempts only; for an engine's order, the replay asks the venue.
LOOK: Final = "ask the venue first (C): a replay asks it for this order too, and sends it only if it is not there"
_FIX: Final = "correct the order at its source, then dismiss this one as bad-order"
_READ: Final = "refused by the venue: read the reason, then dismiss, or correct it at its source"
_NO_MATCH: Final = "a document that does not match its schema, the order or the answer to it"
_KEYS: Final = "dlq secrets check VENUE --paper|--live"


def _any(phrases: str) -> tuple[str, ...]:
    return tuple(" ".join(phrase.split()) for phrase in phrases.split("|"))


# Validation of a request model fails before sending; any other model may be that of the answer.
_REQUEST_MODELS: Final = tuple(
    f"for {kind}orderrequest"
    for kind in ("", "limit", "market", "stop", "stoplimit", "create", "new", "place", "replace")
)
# A look-up of one of the order's own fields; any other key may be of the engine's own tables.
_ORDER_FIELDS: Final = (
    "quantity", "qty", "amount", "side", "symbol", "market_id", "market", "price", "limit_price", "order_type", "type",
    "time_in_force", "client_order_id", "account_id", "venue_name",
)  # fmt: skip
_KEY_ERRORS: Final = tuple(
    f"keyerror{lead}{mark}{name}{mark}" for name in _ORDER_FIELDS for lead in (": ", "(") for mark in ("'", '"')
)
# The error describes the last try only; an earlier one may have arrived.
_RETRIED: Final = (
    "retryerror", "retries exhausted", *(f"{digit} {tries}" for digit in range(10) for tries in ("attempts", "tries"))
)  # fmt: skip

# Order matters, because the first match wins. First every sign that the order may have reached the venue, whatever
# else the text says; then failures before the first byte; then definite refusals by the venue.
RULES: Final[tuple[Rule, ...]] = (
    # --- the order may have reached the venue ------------------------------------------------------------------------
    Rule(
        "engine-store-busy", "transient", "maybe", f"the engine's own store was busy, before or after sending; {LOOK}",
        words=_any("""
            deadlock detected | deadlockdetected | could not serialize access | serializationfailure |
            could not obtain lock | locknotavailable | lock wait timeout
        """),
    ),
    Rule(
        "engine-store", "integration", "maybe", f"fix the engine's own store; {LOOK}",
        words=_any("""
            asyncpg | psycopg | sqlalchemy | sqlite | database is locked | database or disk | unique constraint |
            no space left | disk i/o | :5432 | , 5432 | postgres | redis |
            in the middle of operation
        """),
    ),
    Rule(
        "duplicate-id", "business", "maybe", f"the venue knows this id: the order arrived earlier; {LOOK}",
        words=_any("""
            duplicate | must be unique | not unique | already exist | already_exist | already used | already_used |
            already in use | been used | repeated
        """),
        codes=frozenset({"-4116"}),
    ),
    Rule(
        "at-the-venue", "business", "maybe", f"the venue holds or held this order; {LOOK}",
        words=_any("""
            partially filled | partial fill | already filled | already cancel | already been | already in |
            order held | order canceled - reason | order cancelled - reason | order message: | warning: |
            not be placed at the exchange until | was set to day | order accepted | order placed | successfully |
            order submitted | been submitted | queued | is pending | pending new | pending_new | cancel pending
        """),
    ),
    Rule(
        "in-doubt", "transient", "maybe", LOOK,
        words=_any("""
            status unknown | execution status | outcome unknown | outcome is unknown | unknown state | in doubt |
            may have been | might have been | could have been | check the request result | check the order |
            check order status | before placing again | for processing | being processed | pendingsubmit |
            unknown error | unknown_error | unknownerror | unexpected error
        """),
        codes=frozenset({"-1000", "-1001", "-1006", "-1007"}),
    ),
    Rule(
        "broken-off", "transient", "maybe", f"the connection broke after sending began; {LOOK}",
        words=_any("""
            disconnected | reset by peer | connection reset | connectionreset | connection aborted | broken pipe |
            brokenpipe | incompleteread | incomplete read | connection broken | payload is not completed | peer closed |
            connection closed | connectionclosed | closed connection | connection was closed |
            connection has been closed | forcibly closed | socket closed | socket hang up | stream closed |
            streamclosed | econnreset | bad record mac | close frame | connection lost | been lost |
            connectivity between | eof occurred | unexpected eof | unexpected_eof | protocolerror | readerror |
            writeerror | cancellederror | cancelled while | network error | networkerror | networkexception
        """),
    ),
    Rule(
        "no-answer", "transient", "maybe", f"sent, but not answered in time; {LOOK}",
        words=_any("""
            read timed out | readtimeout | read timeout | timeout on reading | write timed out | writetimeout |
            write timeout | no answer | no response | no reply | no ack | did not answer | did not respond |
            did not reply | failed to respond | deadline exceeded | deadline_exceeded | deadline elapsed
        """),
    ),
    Rule(
        "unreadable-answer", "schema", "maybe", f"the venue answered, but not readably; {LOOK}",
        words=_any("""
            jsondecodeerror | expecting value | unicodedecodeerror | codec can't decode | unexpected mimetype |
            unexpected response | unexpectedresponse | invalid json | unparsable | not parse | parse error |
            without an order id | no order id | missing order id | not nonetype | contenttypeerror |
            content length | response exceeds | body exceeds | validation error
        """),
        unless=_REQUEST_MODELS,
    ),
    Rule(
        "server-error", "transient", "maybe", f"the venue failed while it worked on it; {LOOK}",
        words=_any("""
            internal server error | bad gateway | service unavailable | gateway time | internal error | server error |
            upstream | eservice: | exchangenotavailable | exchange unavailable | system error | statuscode.unavailable |
            resource_exhausted | system busy | systems are busy | temporarily unavailable | maintenance | maintain
        """),
        statuses=frozenset({408, 425, *range(500, 600)}),
    ),
    # --- the order did not reach the venue ---------------------------------------------------------------------------
    Rule(
        "tls", "integration", "no", "check the certificate store, the clock and the endpoint, then replay",
        words=_any("""
            certificate_verify_failed | certificate verify failed | wrong_version_number | handshake_failure |
            handshake failure | unsupported_protocol | alert_protocol_version | unknown_ca
        """),
    ),
    Rule(
        "not-connected", "transient", "no", "never sent: replay when the venue can be reached",
        words=_any("""
            connection refused | connectionrefused | econnrefused | actively refused | connect call failed |
            failed to establish a new connection | cannot connect to host | connecterror | connecttimeout |
            connect timeout | connection timeout to host | connectiontimeouterror | pooltimeout |
            name or service not known | nodename nor servname | getaddrinfo | name resolution | failed to resolve |
            name does not resolve | no such host | unknownhostexception | error: enotfound | 'enotfound' |
            no address associated | cannot connect to proxy | handshake operation timed out | couldn't connect to tws
        """),
        unless=_RETRIED,
    ),
    Rule(
        "unreachable", "transient", "maybe", f"the network was gone, before or after sending; {LOOK}",
        words=_any("""
            network is unreachable | host is unreachable | no route to host | enetunreach | ehostunreach | not connected
        """),
    ),
    Rule(
        "timeout", "transient", "maybe", f"timed out, and not while connecting; {LOOK}",
        words=_any("timeout | timed out | time-out | timedout"),
    ),
    Rule(
        "missing-field", "schema", "maybe", f"an order without a field that it needs, or an answer without it; {LOOK}",
        words=_KEY_ERRORS,
    ),
    Rule(
        "engine-bug", "integration", "maybe", f"a fault in the engine, before or after sending; {LOOK}",
        words=_any("""
            typeerror | keyerror | attributeerror | indexerror | nameerror | assertionerror | zerodivisionerror |
            recursionerror | memoryerror | invalidoperation | unboundlocalerror | importerror | modulenotfound
        """),
    ),
    Rule(
        "breaker", "transient", "no", "never sent: replay when the engine's breaker has closed",
        words=_any("circuit breaker | circuitopen | breaker open | breaker is open"),
    ),
    Rule(
        "not-submitted", "integration", "no", "never sent: make the engine await its submit, then replay",
        words=(
            "submit is async: submit_or_dead_letter needs a plain function; nothing was sent",  # of version 0.1
            "submit is async, and nobody awaited it; nothing was sent",
        ),
    ),
    Rule(
        "held-back", "business", "no", "kept back by the engine itself: replay if the reason is gone, else dismiss",
        words=_any("kill switch | killswitch | risk check | riskrejected | risk rejected | pre-trade"),
    ),
    Rule(
        "invalid-document", "schema", "maybe", f"{_NO_MATCH}; {LOOK}",
        words=_any("validationerror | jsonschema | failed validating"), unless=_REQUEST_MODELS,
    ),
    # --- the venue refused the order ---------------------------------------------------------------------------------
    Rule(
        "clock", "integration", "no", "set the clock of the engine's host (or its nonce), then replay",
        words=_any("""
            recvwindow | recv_window | timestamp for this request | server timestamp | request expired |
            invalid nonce | invalidnonce
        """),
    ),
    Rule(
        "credentials", "integration", "no", _KEYS,
        words=_any("""
            invalid api-key | invalid api key | invalid apikey | invalid key | invalid sign | api wallet |
            authenticationerror | authentication_error | not authorized | permissiondenied | passphrase |
            credential | token expired | expired token | key expired | incorrect_api_key
        """),
    ),
    Rule(
        "rate-limit", "transient", "no", "replay when the venue is ready again (its rate limit)",
        words=_any("""
            rate limit | ratelimitexceeded | ratelimiterror | rate_limit_exceeded | too many requests |
            too many visits | too many cumulative | request weight | banned until | ddosprotection | throttl |
            max rate of messages
        """),
        statuses=frozenset({418, 429}),
    ),
    Rule(
        "market-closed", "business", "no", "replay after the open, or dismiss as market-closed",
        words=_any("""
            market is closed | market closed | market_closed | marketclosed | exchange is closed | trading hours |
            market is not open | not open for trading
        """),
    ),
    Rule(
        "paused", "transient", "no", "replay when trading resumes",
        words=_any("""
            is paused | _paused | trading paused | trading halt | market halt | is halted | cancel_only |
            cancel-only | cancel only
        """),
    ),
    Rule(
        "funds", "business", "no", "fund the account or free margin and replay, or dismiss",
        words=_any("""
            insufficient | not have sufficient | notenough | not enough for | not enough balance | not enough fund |
            not enough margin | not_enough | balance is not enough | enough available cash | buying power |
            the initial margin | cannot afford
        """),
        unless=_any("insufficient data | insufficient resource | insufficient system | insufficient storage"),
    ),
    Rule(
        "precision", "schema", "no", f"price or quantity off the venue's grid: {_FIX}",
        words=_any("""
            precision | tick size | tick_size | sub-penny | price variation | lot_size | lot size |
            price_filter | step size | divisible by | increment | decimal places | multiple of
        """),
    ),
    Rule(
        "size-or-price", "business", "no", "outside the venue's limits: resize it at the source, or dismiss",
        words=_any("""
            minimum value | min notional | min_notional | filter failure: notional | notional value | max notional |
            notional exceeds | minimum not met | the minimum | minimum order | minimum amount | maximum order |
            max position | order exceeds | amount exceeds | size exceeds | quantity exceeds | exceeds the limit |
            exceeds max | exceeds available | position limit | open interest | price limit | out of the limit |
            too far from | away from the reference
        """),
    ),
    Rule(
        "would-cross", "business", "no", "the book moved: replay only at a price you still want, or dismiss",
        words=_any("""
            post only | post-only | post_only | crosses the book | order crosses | immediately match |
            could not immediately | orderimmediatelyfillable | fill or kill | fok order | fak order | no liquidity
        """),
    ),
    Rule(
        "not-allowed", "business", "no", "the venue's rules forbid it for this account: dismiss, or ask the venue",
        words=_any("""
            not tradable | not tradeable | not eligible | is not allowed | not permitted | restricted |
            day trading | wash trade | self trade | self-trade | reduce only | reduce-only | reduceonly |
            short sell | account is not | account is blocked | suspended | geoblock
        """),
    ),
    Rule(
        "unknown-market", "business", "no", "check the market's name at the venue, then dismiss as bad-order",
        words=_any("""
            badsymbol | invalid symbol | \\" not found | unknown symbol | symbol not found | unknown asset |
            invalid asset | no security definition | does not have market symbol | instrument id does not exist
        """),
    ),
    Rule(
        "nothing-to-cancel", "business", "no", "the order to cancel or replace is not open: dismiss",
        words=_any("unknown order sent | eorder:unknown order | cancelled is not found"),
    ),
    Rule(
        "order-not-found", "business", "maybe", f"not found proves nothing right after a send; {LOOK}",
        words=_any("ordernotfound | order not found | order does not exist | order_not_found | never placed"),
    ),
    Rule(
        "malformed", "schema", "no", _FIX,
        words=_any("""
            mandatory parameter | illegal characters | argumentsrequired | requires a price | notsupported |
            unsupported order type | invalid order type | invalid time_in_force | error validating request |
            missing_parameters | order has invalid
        """) + _REQUEST_MODELS,
    ),
    Rule("bad-request", "schema", "no", _FIX, words=_any("badrequest: | badrequest("), own_words=True),
    Rule(
        "refused", "business", "no", _READ,
        words=_any("""
            invalidorder | operationrejected | order rejected | accountsuspended | contractunavailable |
            trade denied | rejected by venue
        """),
    ),
    Rule(
        "invalid-field", "schema", "no", _FIX, among=frozenset({400, 422}), own_words=True,
        words=_any("""
            invalid | must be | must have | must not | cannot be | should be | require | missing | malformed |
            not valid | validation | parameter | unsupported | out of range | fractional
        """),
    ),
    Rule("credentials-status", "integration", "no", _KEYS, statuses=frozenset({401, 403}), own_words=True),
    Rule("refused-status", "business", "no", _READ, statuses=frozenset({400, 404, 410, 422, 451}), own_words=True),
    # --- whose fault it is, in words that prove nothing about the send ------------------------------------------------
    Rule(
        "refused-for-good", "integration", "maybe",
        f"an external service refuses it: check its credentials, rights and address; {LOOK}",
        words=_any("""
            permission denied | access denied | accessdenied | unauthori | forbidden | not authenticated |
            not granted | unknown route | no route | routenotfound | route not found | resourcenotfound |
            such endpoint | unknown endpoint | method not allowed | invalid token | revoked | invalid_grant |
            invalid_client | signature
        """),
    ),
    Rule(
        "bad-amount", "business", "maybe", f"an amount that no order can have: {_FIX}; {LOOK}",
        words=_any("""
            negative | be zero | is zero | below zero | less than zero | must be positive | non-positive |
            must be greater than | must be > | must be at least | invalid quantity: -
        """),
    ),
    Rule(
        "business-rule", "business", "maybe", f"a rule of the trade stands against it: dismiss, or correct it; {LOOK}",
        words=_any("""
            credit limit | exposure limit | loss limit | risk limit | trading limit | order limit | leverage |
            compliance | margin requirement | margin check | business rule | ruleerror | ruleviolation | rule violat |
            has expired | delisted | market not found | price out of range | account is closed | account closed |
            accountclosed | account has been | account not found | invalid account | customer not found
        """),
    ),
    Rule(
        "schema-mismatch", "schema", "maybe", f"{_NO_MATCH}; {LOOK}",
        words=_any("""
            schema | required propert | missing required | required field | field required | is required |
            missing field | missing data for | missing value | unexpected field | unknown field | deserializ |
            decodeerror | error parsing | could not convert | invalid literal for | invalid payload |
            malformed | payload is invalid | unknown side | invalid side | must be <class | wrong type | invalid type
        """),
    ),
    Rule(
        "unavailable", "transient", "maybe", f"something on the way was not available; {LOOK}",
        words=_any("""
            unavailable | not available | notavailable | nobrokersavailable | downstream | is down | currently down |
            offline | outage | is busy | server busy | serverbusy | try again | retry later | temporary failure |
            temporarily | overloaded | exhausted | responding | connect | cannot reach | healthy
        """),
    ),
    # --- a status that proves nothing --------------------------------------------------------------------------------
    Rule(
        "unprocessable-bare", "schema", "maybe",
        f"refused as unprocessable without the venue's own words, which proves nothing; {LOOK}",
        words=("unprocessable",), statuses=frozenset({422}),
    ),
    Rule(
        "refused-bare", "integration", "maybe", f"refused without the venue's own words, which proves nothing; {LOOK}",
        statuses=frozenset(range(400, 500)),
    ),
    Rule(
        "answered", "schema", "maybe", f"the venue answered, so it arrived; {LOOK}",
        statuses=frozenset(range(200, 400)),
    ),
    # --- what an engine's own library says of a submit that was cut off ---------------------------------------------
    Rule(
        "cut-off", "transient", "maybe", f"the engine never learned what became of it; {LOOK}",
        words=_any("unknown outcome: | ended before it knew the outcome"),
    ),
)  # fmt: skip

UNKNOWN: Final = Rule(
    "unknown", "integration", "maybe", f"not recognised, so counted as integration and as possibly arrived; {LOOK}"
)
