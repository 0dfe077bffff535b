"""Writes what `release.toml` says into the files that cannot read it, and says what is unfilled.

    python docs/makers/release.py           # write
    python docs/makers/release.py --check   # exit code 1 while an address is a placeholder

Everything else in those files is written manually and does not change.
"""

import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADDRESSES = ("owner", "repository", "site")
DISCLOSURE = "# AI usage disclosure\n\n"


def read():
    """Return what `release.toml` says."""
    return tomllib.loads((ROOT / "release.toml").read_text(encoding="utf-8"))


def placeholders(release):
    """Return the keys of addresses that are not filled in yet."""
    return [key for key in ADDRESSES if "example" in release[key]]


def block(key, entries):
    """Return a list of mappings as YAML."""
    lines = [f"{key}:"]
    for entry in entries:
        words = [f"{k}: {json.dumps(v, ensure_ascii=False)}" for k, v in entry.items() if v]
        lines += [f"{'    ' if i else '  - '}{line}" for i, line in enumerate(words)]
    return "\n".join(lines) + "\n"


def full_name(author):
    """Return the name of a person, or of a group."""
    return author.get("name") or f"{author['given']} {author['family']}"


def citation(text, release):
    """Fill in CITATION.cff: its last lines are authors and addresses."""
    authors = [
        {
            "name": author.get("name"),
            "given-names": author.get("given"),
            "family-names": author.get("family"),
            "orcid": f"https://orcid.org/{author['orcid']}" if "orcid" in author else None,
            "affiliation": author.get("affiliation"),
        }
        for author in release["authors"]
    ]
    text = text.partition("authors:\n")[0] + block("authors", authors)
    if not placeholders(release):
        text += f"url: {release['site']}\nrepository-code: {release['repository']}\n"
    return text


def zenodo(text, release):
    """Fill in .zenodo.json: its creators."""
    record = json.loads(text)
    record["creators"] = []
    for author in release["authors"]:
        person = "family" in author
        name = f"{author['family']}, {author['given']}" if person else author["name"]
        known = {key: author[key] for key in ("orcid", "affiliation") if key in author}
        record["creators"].append({"name": name, **known})
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def paper(text, release):
    """Fill in paper.md: authors and affiliations of its header, and the authors' disclosure."""
    places = list(dict.fromkeys(a["affiliation"] for a in release["authors"] if "affiliation" in a))
    authors = [
        {
            "name": full_name(author),
            "orcid": author.get("orcid"),
            "affiliation": str(places.index(author["affiliation"]) + 1)
            if "affiliation" in author
            else None,
        }
        for author in release["authors"]
    ]
    before, _, rest = text.partition("authors:\n")
    after = rest[rest.index("date:") :]
    indices = [{"index": i, "name": name} for i, name in enumerate(places, 1)]
    header = block("authors", authors) + (block("affiliations", indices) if indices else "")
    body, _, references = after.partition("# References\n")
    body = body.partition(DISCLOSURE)[0]
    disclosure = (
        f"{DISCLOSURE}{release['ai_usage'].strip()}\n\n" if release["ai_usage"].strip() else ""
    )
    return f"{before}{header}{body}{disclosure}# References\n{references}"


WRITERS = {"CITATION.cff": citation, ".zenodo.json": zenodo, "paper.md": paper}


def main():
    release = read()
    unfilled = placeholders(release)
    if "--check" in sys.argv[1:]:
        sys.exit(f"release.toml has placeholders: {', '.join(unfilled)}" if unfilled else 0)
    for name, write in WRITERS.items():
        path = ROOT / name
        path.write_text(write(path.read_text(encoding="utf-8"), release), encoding="utf-8")
    for key in [*unfilled, *([] if release["ai_usage"].strip() else ["ai_usage"])]:
        print(f"still to be filled in, in release.toml: {key}")


if __name__ == "__main__":
    main()
