"""Compare or write golden files; see the package."""

from __future__ import annotations

import json
import sys

import golden


def main() -> None:
    arguments, anew = [each for each in sys.argv[1:] if each != "--write"], "--write" in sys.argv
    if arguments == ["interface"]:
        print(golden.interface(), end="")
        return
    if arguments == ["paper"]:
        wrong = golden.paper(anew)
    else:
        wrong = []
        if anew and not arguments:
            for name, number, seed in (("train", 100, 1), ("test", 40, 2)):
                lines = (
                    json.dumps(document, ensure_ascii=False) + "\n"
                    for document in golden.make_documents(number, seed)
                )
                (golden.FOLDER / f"{name}.jsonl").write_text("".join(lines))
        for name in arguments or golden.FILES:
            if anew:
                golden.write(name)
            else:
                wrong += [f"{name}: {line}" for line in golden.compare(name)]
    print(*(wrong or ["all agree" if not anew else "written"]), sep="\n")
    sys.exit(bool(wrong))


main()
