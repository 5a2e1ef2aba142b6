"""Measure how far a reader has to go: the structure of app and models, by one rule for any checkout.

    python -m bench.structure [--json] [ROOT]
    python -m bench.structure --walk text [ROOT]

The sources are parsed, never imported, so a checkout of any age can be measured.

- **files, lines**: every `.py` file of `app/` and `models/`, empty ones too; all their lines.
- **functions**: every `def`, methods and nested functions too; lengths from `def` to the last line.
- **private, used once**: functions whose name begins with one underscore and is read exactly once in their
  own file, as a share of all functions.
- **import chain**: the largest number of files on one path along imports; imports in functions and for type
  checkers count, and files that import each other in a circle count as one step each.
- **two-way folders**: pairs of folders of which each imports the other. A folder is the first level below app
  or models; a file directly in app or models stands for itself.
- **walks**: `text` from `POST /tts` to PCM, `speaker` from `POST /speakers` to its flow prompt, for the
  built-in voice on a CPU: whole text, English, WAV, nothing fails. bench/call_graph.py defines which function
  mentions which; WALKS below says where a walk begins, what it must reach, and which branches such a request
  does not take. *Functions* counts those that mention another function on the walk; one that mentions none is
  a leaf, read in passing. *Files* counts the files of the functions counted. Functions that only free, stop,
  count or refuse are left out.
"""

import argparse
import ast
import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from firstword.bench.call_graph import CallGraph, Function
from firstword.bench.sources import Source, import_graph, read_sources

MAX_LINES_OF_FUNCTION = 50
MAX_LINES_OF_FILE = 500

_FREEING = (
    "abort",
    "aclose",
    "cancel",
    "clear",
    "close",
    "end",
    "fail",
    "forget",
    "free",
    "release",
    "remove",
    "stop",
)


@dataclass(frozen=True, slots=True)
class Walk:
    """All are patterns of `path:function`; `a|b` matches what either matches, and one of them is enough."""

    entries: Sequence[str]
    ends: Sequence[str]  # each must be reached, or the figures would be of half a walk
    excluded: Sequence[str]
    links: Mapping[str, str] = field(default_factory=dict)


_NOT_TAKEN = (
    # Other backends and model families, text that comes piece by piece.
    "models/vllm/*",
    "models/graphs/*",
    "models/tensorrt/*",
    "models/random_checkpoint/*",
    *(
        f"*:*{word}*"
        for word in ("Vllm", "EngineTokenGenerator", "EngineStream", "TensorRt", "Trt", "Leg", "Supervisor")
    ),
    *(f"*:*{word}*" for word in ("Regulated", "CosyVoice1", "CosyVoice3", "Interleaved", "Bistream")),
    *(
        f"*:{name}*"
        for name in ("CausalVocoder", "KeptContext", "PagedKVCache", "DiT", "EmbeddingFront", "TransformerLM")
    ),
    *(f"*:{name}*" for name in ("WhisperTokenizer", "instruct", "instruct2", "sft", "cross_lingual")),
    # No keys are asked for.
    "*:AuthMiddleware._authenticate",
    # Counting (time, memory) and logging; freeing and stopping.
    "*.*_bytes",
    "*.cache_sizes",
    "app/telemetry/*",
    "*:StreamRecord*",
    "*:Metrics*",
    "*:TimingMiddleware*",
    "*:OriginMiddleware*",  # it passes a request on as it is, or refuses it
    "*Error.__init__",
    "*:InvalidRequest.__init__",
    *(f"*.{underscore}{name}" for name in _FREEING for underscore in ("", "_")),
)

WALKS = {
    "text": Walk(
        entries=["app/api/*:speak|app/api/*:synthesize", "app/*:*Middleware.__call__"],
        ends=[
            "*:*Graph.run|*:*Session.run",
            "*:repetition_aware_probabilities",
            "models/flow/*:solve",
            "*:to_pcm16",
        ],
        excluded=[
            *_NOT_TAKEN,
            *(f"*:{name}*" for name in ("CompleteAudioResponse", "Event*Response", "_event", "encode_whole")),
            *(f"*:*{name}*" for name in ("Muxe", "mux_whole", "Outbox", "Resample", "Tempo")),
            *(
                f"*:{name}*"
                for name in ("SentenceFeed", "WordFeed", "say_chinese", "*._continue", "*._finish_open")
            ),
            # The text has no marks, and there is no lexicon.
            *(f"*:{name}" for name in ("Lexicon*", "TextFrontend._lexicons", "TextFrontend.open.ssml")),
            *(
                f"*:{name}"
                for name in ("MarkReader._part_at", "MarkedFeed._control", "_pause", "SsmlReader*")
            ),
            "*Generator.push_text",
            # Nobody asked for `context: full`, nor when its words sound.
            *("*:*.solve_whole", "*:*._solve_whole"),
            *(f"*:{name}" for name in ("find_words", "in_source", "UtteranceWords*", "*._text_query")),
            *(f"*:{name}" for name in ("TimestampFields*", "*TimedResponse*", "AudioResponse.timed")),
            # It has text, and the voice of a speaker; no audio of it is kept.
            *(f"*:{name}" for name in ("TextTask._speak_tokens", "ReferenceFields.reference")),
            *("*:PhraseCache*", "*:SpeechStream._replay", "*:Loudness*", "*.identity"),
            # The speaker is in memory.
            *(f"*:{name}*" for name in ("Enroller", "Enrolment", "SpeakerWorkshop", "SpeakerRegistry._")),
            "*:PreparedCache._fly",
            "*:PreparedCache._compute_once",
        ],
    ),
    "speaker": Walk(
        entries=[
            "app/api/speakers.py:enrol|app/api/speakers.py:register",
            "app/api/*:BodyLimitMiddleware.__call__",
        ],
        ends=["*:SpeakerStore.insert", "*:SpeechTokenizer.encode", "models/flow/*:solve"],
        excluded=[
            *_NOT_TAKEN,
            # The upload is a plain WAV file, without a transcript to check.
            "*:*transcript_fit*",
            *(
                f"app/audio/decode.py:{name}"
                for name in ("_audio_track", "_mono_pieces", "_frames", "_packets")
            ),
            # The store was checked at its start, its disk is not full.
            "*:SpeakerStore._check_all",
            *(f"*:{name}" for name in ("is_full", "_sqlite_code", "*_reserve", "reserve_of")),
        ],
        links={
            "*:Enroller.prepare|*:Enrolment.prepare": "*:Token2Wav.prepare|*:Token2Wav.compute_prompt_state"
        },
    ),
}


class WalkBroken(Exception):
    """A walk does not reach its end in this checkout: WALKS has to learn its names."""


@dataclass(frozen=True, slots=True)
class WalkFigures:
    functions: int
    files: int
    leaves: int


@dataclass(frozen=True, slots=True)
class Structure:
    files: int
    lines: int
    functions: int
    function_lines_median: float
    function_lines_p90: float
    function_lines_max: int
    long_functions: list[str]
    private_used_once: int
    private_used_once_share: float
    import_chain: list[str]
    two_way_folders: list[str]
    long_files: list[str]
    walks: dict[str, WalkFigures]


def measure(root: Path) -> Structure:
    """Raises WalkBroken, and FileNotFoundError where root is no checkout."""
    sources = read_sources(root)
    graph = CallGraph(sources)
    functions = list(graph.functions.values())
    lengths = sorted(each.num_lines for each in functions)
    once = [each for each in functions if is_private_used_once(each)]
    imports = import_graph(sources)
    return Structure(
        files=len(sources),
        lines=sum(each.num_lines for each in sources.values()),
        functions=len(functions),
        function_lines_median=statistics.median(lengths),
        function_lines_p90=statistics.quantiles(lengths, n=10)[-1],
        function_lines_max=lengths[-1],
        long_functions=[
            f"{each.location} {each.num_lines}"
            for each in functions
            if each.num_lines > MAX_LINES_OF_FUNCTION
        ],
        private_used_once=len(once),
        private_used_once_share=len(once) / len(functions),
        import_chain=longest_chain(imports),
        two_way_folders=two_way_folders(sources, imports),
        long_files=[f"{s.path} {s.num_lines}" for s in sources.values() if s.num_lines > MAX_LINES_OF_FILE],
        walks={name: figures_of(*walked(sources, walk)) for name, walk in WALKS.items()},
    )


def is_private_used_once(function: Function) -> bool:
    name = function.node.name
    if not name.startswith("_") or name.startswith("__"):
        return False
    return _mentions(function.source)[name] == 1


def longest_chain(imports: Mapping[str, set[str]]) -> list[str]:
    """Modules, the importing one first."""
    order = _components(imports)
    home = {module: number for number, component in enumerate(order) for module in component}
    best: list[list[str]] = []
    for number, component in enumerate(order):  # what is imported comes before what imports it
        below = {home[target] for module in component for target in imports[module]} - {number}
        behind = max((best[each] for each in sorted(below)), key=len, default=[])
        best.append([*component, *behind])
    return max(best, key=len, default=[])


def two_way_folders(sources: Mapping[str, Source], imports: Mapping[str, set[str]]) -> list[str]:
    pairs = {
        (sources[module].folder, sources[target].folder)
        for module, targets in imports.items()
        for target in targets
    }
    return sorted(f"{a} <-> {b}" for a, b in pairs if a < b and (b, a) in pairs)


def walked(sources: dict[str, Source], walk: Walk) -> tuple[list[Function], list[Function]]:
    """(functions counted, leaves), in the order in which they are found. Raises WalkBroken."""
    graph = CallGraph(sources, walk.excluded)
    for entry in walk.entries:
        if not graph.matching(entry):
            raise WalkBroken(
                f"no function matches the entry {entry}; give its new name in bench/structure.py"
            )
    found = graph.reachable(walk.entries, walk.links)
    keys = {each.key for each in found}
    for end in walk.ends:
        if not any(each.key in keys for each in graph.matching(end)):
            raise WalkBroken(
                f"the walk does not reach {end}; give its new name, or a link, in bench/structure.py"
            )
    inner = [each for each in found if any(step.key in keys for step in graph.steps_from(each, walk.links))]
    counted = {each.key for each in inner}
    return inner, [each for each in found if each.key not in counted and not each.is_property]


def figures_of(inner: Sequence[Function], leaves: Sequence[Function]) -> WalkFigures:
    files = {each.source.path for each in inner}
    return WalkFigures(functions=len(inner), files=len(files), leaves=len(leaves))


def _mentions(source: Source) -> Counter[str]:
    """How often each name is read in a file, as a name or behind a dot."""
    found: Counter[str] = Counter()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found[node.id] += 1
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            found[node.attr] += 1
    return found


def _components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Tarjan's strongly connected components, each after those it leads to."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in index:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            at = stack.index(module)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return found


def lines_of(structure: Structure) -> Iterator[str]:
    share = f"{structure.private_used_once_share:.1%}"
    yield f"files, lines                 {structure.files}, {structure.lines}"
    yield f"files over {MAX_LINES_OF_FILE} lines         {_list(structure.long_files)}"
    yield f"functions                    {structure.functions}"
    yield (
        f"lines, median / p90 / max    {structure.function_lines_median:g} / {structure.function_lines_p90:g}"
        f" / {structure.function_lines_max}"
    )
    yield f"functions over {MAX_LINES_OF_FUNCTION} lines      {_list(structure.long_functions)}"
    yield f"private, used once           {structure.private_used_once}, {share}"
    yield f"import chain                 {len(structure.import_chain)}: {' > '.join(structure.import_chain)}"
    yield f"two-way folders              {_list(structure.two_way_folders)}"
    for name, walk in structure.walks.items():
        yield f"walk of {name:20} {walk.functions} functions, {walk.files} files ({walk.leaves} leaves)"


def _list(items: Sequence[str]) -> str:
    return f"{len(items)}: {', '.join(items)}" if items else "none"


def show_walk(root: Path, name: str) -> Iterator[str]:
    """A line for each file: the functions counted, and in brackets the leaves."""
    inner, leaves = walked(read_sources(root), WALKS[name])
    for path in dict.fromkeys(each.source.path for each in (*inner, *leaves)):
        names = [each.name for each in inner if each.source.path == path]
        names += [f"({each.name})" for each in leaves if each.source.path == path]
        yield f"{path}: {' '.join(names)}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.structure", description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=Path, default=Path(), metavar="ROOT", help="a checkout")
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--walk", choices=WALKS, help="the functions on one walk, file by file")
    given = parser.parse_args(arguments)
    try:
        if given.walk:
            print(*show_walk(given.root, given.walk), sep="\n")
            return 0
        structure = measure(given.root)
    except (FileNotFoundError, WalkBroken) as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(asdict(structure), indent=2)) if given.json else print(*lines_of(structure), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
