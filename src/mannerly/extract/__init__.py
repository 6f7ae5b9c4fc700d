"""Bytes -> what they say, pure.

    body, Content-Type -> `types` (what is it) -> `charset` (text) -> `document` (tree)
      -> `html` (title, language, canonical, refresh, links), `directives` (what the page asks of crawlers),
         `select` (fields asked for), `text` (main text; last, for it uses the tree up) -> `digest`

`page.extract_page` is the one call that does all of it for one response. Invariants:

  - No input makes extraction raise; selectors are checked once, when they are compiled.
  - Everything is bounded: tags, links, text, fields. What was cut is named in `Extracted.truncated`.
  - The HTML library is known to `document` (the tree) and `encodings` (the decoding tables) alone.
"""
