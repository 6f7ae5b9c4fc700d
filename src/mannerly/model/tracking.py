"""Names of query parameters that say who a visitor is or where they came from, never which page is meant.

They are left out of a key, so that one page is one key. A name that strips too much loses pages without a word, a name
that is missing costs a duplicate: so a name stands here only if it cannot reasonably select content. Plain words
(`ref`, `source`, `campaign`, `cid`, `sid`, `tag`) never do; a crawl may add its own.

Sources: names that at least two of three public lists agree on (ClearURLs' global rules, Brave's query filter,
Firefox's query stripping), then those the vendors document as click, mail or campaign identifiers of their own.
All names are lower case and compared without regard to case.
"""

from __future__ import annotations

from typing import Final

TRACKING: Final[frozenset[str]] = frozenset(
    [
        "_bhlid",
        "_branch_match_id",
        "_branch_referrer",
        "_ga",
        "_gl",
        "_hsenc",
        "_hsmi",
        "_ke",
        "_kx",
        "_openstat",
        "__hsfp",
        "__hssc",
        "__hstc",
        "__s",
        "__twitter_impression",
        "at_recipient_id",
        "at_recipient_list",
        "bsft_clkid",
        "bsft_uid",
        "dclid",
        "epik",
        "et_rid",
        "fb_action_ids",
        "fb_comment_id",
        "fbclid",
        "gad_campaignid",
        "gad_source",
        "gbraid",
        "gclid",
        "gclsrc",
        "guce_referrer",
        "guce_referrer_sig",
        "hsctatracking",
        "igshid",
        "irclickid",
        "li_fat_id",
        "mc_cid",
        "mc_eid",
        "mkt_tok",
        "ml_subscriber",
        "ml_subscriber_hash",
        "msclkid",
        "mtm_campaign",
        "mtm_cid",
        "mtm_content",
        "mtm_group",
        "mtm_keyword",
        "mtm_kwd",
        "mtm_medium",
        "mtm_placement",
        "mtm_source",
        "oft_c",
        "oft_ck",
        "oft_d",
        "oft_id",
        "oft_ids",
        "oft_k",
        "oft_lk",
        "oft_sk",
        "oly_anon_id",
        "oly_enc_id",
        "os_ehash",
        "pk_campaign",
        "pk_cid",
        "pk_keyword",
        "pk_kwd",
        "pk_medium",
        "pk_source",
        "rb_clickid",
        "rdt_cid",
        "s_cid",
        "sc_customer",
        "sc_eh",
        "sc_uid",
        "sccid",
        "sfmc_activityid",
        "sfmc_id",
        "srsltid",
        "ss_email_id",
        "syclid",
        "ttclid",
        "twclid",
        "unicorn_click_id",
        "vero_conv",
        "vero_id",
        "vgo_ee",
        "wbraid",
        "wickedid",
        "wtrid",
        "yclid",
        "ymclid",
        "ysclid",
    ]
)
"""Stripped when the whole name is one of these."""

TRACKING_PREFIXES: Final[tuple[str, ...]] = ("utm_",)
"""Stripped when the name starts so: the campaign names of the Urchin Tracking Module are open-ended."""

SESSION: Final[frozenset[str]] = frozenset({"phpsessid", "jsessionid", "cfid", "cftoken"})
"""Session identifiers of PHP, Java servlets and ColdFusion; others (`sid`, `sessionid`) select content too often."""

SESSION_PREFIXES: Final[tuple[str, ...]] = ("aspsessionid",)
"""Classic ASP appends eight random letters to the name."""
