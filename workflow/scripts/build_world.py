"""Generate the mini-world: a mirror folder that holds every data set of a laptop run in its upstream's format.

One seed gives monolingual documents, parallel text and the gold data of every evaluation task for stand-in languages,
with planted dirt in the training text and a gold list of it. Files lie at <host>/<path> as in config/datasets.tsv, so
that downloading from the world and downloading from the network are one piece of code.
"""

import argparse
import hashlib
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from common.atomic import write_text
from common.errors import UserError, run_main
from common.pairs import pair_with_english
from common.yamlfiles import read_scale
from plan.datasets import load_datasets, load_languages
from world import formats
from world.concepts import Event, Storyteller, World, build_concepts, document, inference_pair
from world.dirt import dirty_documents, dirty_pairs
from world.languages import PROFILES, Speaker, Token, alignment, build_language, detokenise, written_words
from world.names import naming_event, tagged_words
from world.paraphrases import POSITIVES, paraphrase_pair
from world.questions import Paragraph, answer_tokens, context_and_answers, paragraph

KEYS = (
    "seed",
    "languages",
    "documents",
    "sentences_per_document",
    "bitext",
    "pairs",
    "nli",
    "pos",
    "tatoeba",
    "paraphrase",
    "ner",
    "qa",
    "mining",
    "alignment",
    "dirt",
)
OPTIONAL_KEYS = ("clones", "translation")
SPLITS = ("train", "dev", "test")
LABELS = ("entailment", "contradiction", "neutral")
UPSTREAM_LABEL = {"contradiction": "contradictory"}  # as XNLI-MT spells it
GENRES = ("fiction", "government", "slate", "telephone", "travel")
TRANSLATION_NOISE = 0.03  # share of words that machine translation gets wrong
SAME_PARAGRAPH = 0.4  # share of sentences that are glued to the one before
TRADITIONAL_SHARE = 0.15  # of the Chinese documents
LEAKING = 300  # evaluation sentences that leak into training text
CONTEXT_WORDS = 42  # of an English context, punctuation included: with its question it fits a row of 64 tokens
TYDIQA_NAMES = {"ar": "arabic", "en": "english", "ru": "russian", "sw": "swahili"}
ALIGNED_FOLDERS = {"de": "de-en", "fr": "en-fr", "hi": "en-hi", "ro": "ro-en"}
CONLL_2002 = {"es": "esp", "nl": "ned"}
FILE_OF = {"train": "train", "dev": "testa", "test": "testb"}  # of CoNLL's splits
ZIP_MEMBERS = {"train": "train.txt", "dev": "valid.txt", "test": "test.txt"}  # of its English part
WMT_MEMBERS = {"wmt14-nc-v9": "training/news-commentary-v9"}  # before .<language>-en.<side>
TRANSLATED = ("de", "fr")  # of the languages of WMT
NEWSTEST = {"test": 2014, "dev": 2013}
OLDER_DEV = {"fr": 2012}  # the first half of the dev set
FUNCTION_UPOS = ("ADP", "AUX", "DET", "PART")  # linked possibly, not surely, as annotators differ on them


class Generator:
    """Everything that one world.yaml asks for; each method writes one upstream."""

    def __init__(self, settings: dict, datasets_path: Path, out: Path):
        self.settings, self.out = settings, out
        self.datasets, self.languages = (
            load_datasets(datasets_path),
            load_languages(datasets_path.with_name("languages.tsv")),
        )
        self.world: World = build_concepts(settings["seed"])
        self.codes = list(settings["languages"])
        like = settings.get("clones", {})
        self.speakers = {
            code: Speaker(self.world, build_language(self.world, code, like.get(code))) for code in self.codes
        }
        self.said: dict[str, set[str]] = {code: set() for code in self.codes}
        self.dirt: list[tuple[str, int, str]] = []
        self.test_events: dict[str, list[Event]] = {code: [] for code in self.codes}  # said in which test sets

    def rng(self, *purpose: object) -> random.Random:
        return random.Random("/".join(map(str, (self.settings["seed"], *purpose))))

    def path(self, dataset: str) -> Path:
        if dataset not in self.datasets:
            raise UserError(
                f"config/datasets.tsv: no row `{dataset}`, which the mini-world writes; add it or leave it out"
            )
        return self.out / self.datasets[dataset].path

    def fresh_events(self, rng: random.Random, n: int, held_out: bool, topical: float = 0.6) -> list[Event]:
        """Events that say something new in English (so in every language)."""
        events = []
        while len(events) < n:
            event = Storyteller(self.world, rng, topical).event(held_out)
            if self.is_new("en", self.speakers["en"].sentence(event)):
                events.append(event)
        return events

    def is_new(self, code: str, line: str) -> bool:
        if line in self.said[code]:
            return False
        self.said[code].add(line)
        return True

    def leaking_events(self, *codes: str) -> list[Event]:
        """Some sentences of these languages' evaluation sets, long enough to be recognised where they leak."""
        common = set(self.test_events[codes[0]]).intersection(*(self.test_events[code] for code in codes[1:]))
        detailed = [e for e in self.test_events[codes[0]] if e in common and e.object and (e.place or e.adverb)]
        return self.rng("leaks").sample(detailed, min(LEAKING, len(detailed)))

    # ---- evaluation sets ----

    def xnli(self) -> None:
        sizes = self.settings["nli"]
        members = {}
        for split in ("dev", "test"):
            pairs = self.inference_pairs(split, sizes[split], held_out=True)
            rows = ["\t".join(formats.XNLI_COLUMNS)]
            for code in self.codes:
                say = self.speakers[code].sentence
                for i, (label, premise, hypothesis) in enumerate(pairs):
                    rows.append(
                        formats.xnli_row(code, label, say(premise), say(hypothesis), i, GENRES[i % len(GENRES)])
                    )
            members[f"XNLI-1.0/xnli.{split}.tsv"] = "\n".join(rows) + "\n"
            for code in self.codes:
                self.test_events[code] += [event for _, *events in pairs for event in events]
        formats.write_zip(self.path("xnli/1.0"), members)

        train = self.inference_pairs("train", sizes["train"], held_out=False)
        members = {}
        for code in self.codes:
            rng = self.rng("translation", code)
            rows = ["premise\thypo\tlabel"]
            for label, *events in train:
                sides = [self.translate(rng, code, event) for event in events]
                rows.append("\t".join([*sides, UPSTREAM_LABEL.get(label, label)]))
            members[f"XNLI-MT-1.0/multinli/multinli.train.{code}.tsv"] = "\n".join(rows) + "\n"
        formats.write_zip(self.path("xnli/mt-1.0"), members)

    def inference_pairs(self, split: str, n: int, held_out: bool) -> list[tuple[str, Event, Event]]:
        rng = self.rng("nli", split)
        return [(label := LABELS[i % 3], *inference_pair(self.world, rng, label, held_out)) for i in range(n)]

    def translate(self, rng: random.Random, code: str, event: Event) -> str:
        """Outside English some words come out wrong. Upstream's training text is tokenised (a space before the full
        stop), its test sets are not: a model as small as a laptop trains does not bridge that, so here neither is."""
        return detokenise(self.mistranslate(rng, code, self.speakers[code].say(event)))

    def mistranslate(self, rng: random.Random, code: str, tokens: list[Token]) -> list[Token]:
        """A wrong word is another token; the others are the tokens given."""
        if code == "en":
            return tokens
        stems = list(self.speakers[code].language.stems.values())
        return [
            token._replace(form=rng.choice(stems), joined=0) if rng.random() < TRANSLATION_NOISE else token
            for token in tokens
        ]

    def mistranslate_words(self, rng: random.Random, code: str, tokens: list[Token]) -> list[Token]:
        """The sentence keeps its end: a question without its mark would be told from others by that."""
        *words, end = tokens
        return [*self.mistranslate(rng, code, words), end]

    def ud_pos(self) -> None:
        sizes = self.settings["pos"]
        members = {}
        for code in self.codes:
            prefix, name = self.languages[code].ud_prefix, PROFILES[code].name
            splits = ("train", "dev", "test") if code == "en" else ("dev", "test")
            for split in splits:
                events = self.fresh_events(
                    self.rng("ud", code, split), sizes[split], held_out=split != "train", topical=0.0
                )
                if split != "train":
                    self.test_events[code] += events
                # English is spread over two treebanks, as in the real collection
                treebanks = ("World", "News") if code == "en" else ("World",)
                for t, treebank in enumerate(treebanks):
                    stem = f"{prefix}_{treebank.lower()}-ud-{split}"
                    own = events[t :: len(treebanks)]
                    text = "".join(formats.conllu(f"{stem}-{i}", self.speakers[code].say(e)) for i, e in enumerate(own))
                    members[f"ud-treebanks-v2.5/UD_{name}-{treebank}/{stem}.conllu"] = text
        formats.write_tgz(self.path("ud/2.5"), members)

    def tatoeba(self) -> None:
        for code in self.codes:
            if code == "en":
                continue
            l3 = self.languages[code].tatoeba
            events = self.fresh_events(self.rng("tatoeba", code), self.settings["tatoeba"], held_out=True, topical=0.0)
            for side in (code, "en"):
                self.test_events[side] += events
            for side, suffix in ((code, l3), ("en", "eng")):
                say = self.speakers[side].sentence
                formats.write_lines(self.path(f"tatoeba/{l3}-eng.{suffix}"), (say(event) for event in events))

    # ---- training text ----

    def mono(self) -> None:
        clean = {code: self.clean_documents(code) for code in self.codes}
        lines = {code: [line for document in documents for line in document] for code, documents in clean.items()}
        long = {code: sorted(own, key=len)[len(own) // 2 :] for code, own in lines.items()}
        for code, documents in clean.items():
            rng = self.rng("dirt", code)
            foreign = [
                line
                for other in self.codes
                if other != code
                for line in rng.sample(long[other], min(200, len(long[other])))
            ]
            leaks = [self.speakers[code].sentence(event) for event in self.leaking_events(code)]
            parts = {self.languages[code].cc100[0]: documents}
            if len(self.languages[code].cc100) > 1 and code == "zh":
                cut = round(len(documents) * (1 - TRADITIONAL_SHARE))
                variant = str.maketrans(self.speakers[code].language.variant)
                traditional = [[line.translate(variant) for line in document] for document in documents[cut:]]
                parts = {"zh-Hans": documents[:cut], "zh-Hant": traditional}
            for upstream, own in parts.items():
                texts, kinds = dirty_documents(own, rng, self.settings["dirt"], foreign, leaks)
                path = self.path(f"cc-100/{upstream}")
                formats.write_xz(path, formats.cc100_lines(texts))
                flat = formats.cc100_lines(kinds)
                name = path.relative_to(self.out).as_posix()
                self.dirt += [(name, i + 1, kind) for i, kind in enumerate(flat) if kind]

    def clean_documents(self, code: str) -> list[list[str]]:
        rng = self.rng("documents", code)
        low, high = self.settings["sentences_per_document"]
        say = self.speakers[code].sentence
        glue = " " if self.speakers[code].language.spaced else ""
        documents = []
        for _ in range(round(self.settings["documents"] * self.settings["languages"][code])):
            lines: list[str] = []
            for event in document(self.world, rng, rng.randint(low, high)):
                line = say(event)
                if not self.is_new(code, line):
                    continue
                if lines and rng.random() < SAME_PARAGRAPH:  # a paragraph of two sentences or more
                    lines[-1] += glue + line
                else:
                    lines.append(line)
            if lines:
                documents.append(lines)
        return documents

    def bitext(self) -> None:
        for code, corpora in self.settings["bitext"].items():
            shares = [self.settings["pairs"] // len(corpora)] * len(corpora)
            for corpus, n in zip(corpora, shares, strict=True):
                rng = self.rng("bitext", code, corpus)
                rows, kinds = self.dirty_bitext(code, self.fresh_events(rng, n, held_out=False), rng)
                self.write_bitext(corpus, pair_with_english(code), rows, kinds)

    def dirty_bitext(
        self, code: str, events: list[Event], rng: random.Random
    ) -> tuple[list[tuple[str, str]], list[str]]:
        """Pairs of a language and English in alphabetical order, and the kind of dirt of each."""
        first, second = sorted((code, "en"))
        say_first, say_second = self.speakers[first].sentence, self.speakers[second].sentence
        leaks = [(say_first(event), say_second(event)) for event in self.leaking_events(code, "en")]
        pairs = [(say_first(event), say_second(event)) for event in events]
        others = [other for other in self.codes if other not in (first, second)]
        foreign = [self.speakers[rng.choice(others)].sentence(e) for e in events if e.object and e.place][:200]
        return dirty_pairs(pairs, rng, self.settings["dirt"], foreign, leaks)

    def write_bitext(self, corpus: str, pair: str, rows: list[tuple[str, str]], kinds: list[str]) -> None:
        dataset = f"iitb/{pair}" if corpus == "IITB" else f"opus/{corpus}/{pair}"
        path = self.path(dataset)
        first, second = pair.split("-")
        sides = {code: "".join(row[i] + "\n" for row in rows) for i, code in enumerate((first, second))}
        if corpus == "IITB":
            members = {f"parallel/IITB.en-hi.{code}": text for code, text in sides.items()}
            formats.write_tgz(path, members)
        else:
            members = {f"{corpus}.{pair}.{code}": text for code, text in sides.items()}
            formats.write_zip(path, {**members, "README": "Generated mini-world text.\n"})
        self.list_dirt(path, next(iter(members)), kinds)

    def list_dirt(self, archive: Path, member: str, kinds: list[str]) -> None:
        name = f"{archive.relative_to(self.out).as_posix()}#{member}"
        self.dirt += [(name, i + 1, kind) for i, kind in enumerate(kinds) if kind]

    # ---- evaluation sets that came later: drawn after everything above, which they leave as it was ----

    def covered(self, dataset: str) -> list[str]:
        """The world's languages that this upstream has."""
        self.path(dataset)
        return [code for code in self.codes if code in self.datasets[dataset].languages]

    def unsaid(self, codes: Sequence[str], n: int, draw: Callable[[], Event]) -> list[Event]:
        """Drawn events whose sentences are new in each of these languages."""
        events = []
        while len(events) < n:
            event = draw()
            if all([self.is_new(code, self.speakers[code].sentence(event)) for code in codes]):
                events.append(event)
        return events

    def paraphrases(self) -> None:
        members = {}
        codes = self.covered("pawsx/x-final")
        for split in SPLITS:
            rng, n = self.rng("paraphrase", split), self.settings["paraphrase"][split]
            positives = round(POSITIVES * n)
            labels = rng.sample([True] * positives + [False] * (n - positives), n)
            pairs = []
            for same in labels:
                pair = paraphrase_pair(self.world, rng, same, held_out=split != "train")
                while not self.is_new("en", self.speakers["en"].sentence(pair[0][0])):
                    pair = paraphrase_pair(self.world, rng, same, held_out=split != "train")
                pairs.append(pair)
            for code in codes:
                noise, say = self.rng("paraphrase translation", code), self.speakers[code].say
                rows = []
                for same, pair in zip(labels, pairs, strict=True):
                    said = [say(event, front) for event, front in pair]
                    if split == "train":
                        said = [self.mistranslate_words(noise, code, tokens) for tokens in said]
                    rows.append((*map(detokenise, said), str(int(same))))
                translated = "translated_" if code != "en" and split == "train" else ""
                name = {"train": f"{translated}train", "dev": "dev_2k", "test": "test_2k"}[split]
                members[f"x-final/{code}/{name}.tsv"] = formats.pawsx(rows)
        formats.write_tgz(self.path("pawsx/x-final"), members)

    def wikiann(self) -> None:
        members = {}
        for code in self.covered("panx/1.1.0"):
            parts = {split: formats.panx(code, self.named("panx", code, split)) for split in SPLITS}
            members[f"{code}.tar.gz"] = formats.tgz(parts)
        formats.write_zip(self.path("panx/1.1.0"), members)

    def conll(self) -> None:
        english = {ZIP_MEMBERS[split]: formats.conll2003(self.named("conll", "en", split)) for split in SPLITS}
        formats.write_zip(self.path("conll2003/en"), english)
        for code, prefix in CONLL_2002.items():
            for split in SPLITS if code in self.codes else ():
                text = formats.conll2002(self.named("conll", code, split))
                write_text(self.path(f"conll2002/{prefix}.{FILE_OF[split]}"), text)
        for split in SPLITS if "de" in self.codes else ():
            text = formats.conll2003_german(self.named("conll", "de", split))
            formats.write_latin(self.path(f"conll2003/deu.{FILE_OF[split]}"), text)

    def named(self, upstream: str, code: str, split: str) -> list[list[tuple[str, str, str]]]:
        """Tagged sentences of one language; in CoNLL the last organisation counts as MISC."""
        rng, size = self.rng(upstream, code, split), self.settings["ner"][split]
        if (upstream, split) == ("panx", "train") and code != "en":
            size = self.settings["ner"]["dev"]  # upstream's differ too, and no paper trains on it
        events = self.unsaid([code], size, lambda: naming_event(self.world, rng, held_out=split != "train"))
        miscellaneous = self.world.entities["ORG"][-1] if upstream == "conll" else None
        return [tagged_words(event, self.speakers[code].say(event), miscellaneous) for event in events]

    def squad(self) -> None:
        sizes = self.settings["qa"]
        train = self.paragraphs("squad", "train", "en", sizes["train"])
        write_text(self.path("squad/1.1-train"), formats.squad(self.say_paragraphs("train", train, "en")))
        dev = self.paragraphs("squad", "dev", "en", sizes["dev"])
        write_text(self.path("squad/1.1-dev"), formats.squad(self.say_paragraphs("dev", dev, "en")))
        self.translated("squad", "train", train)

        test = self.paragraphs("xquad", "test", "en", sizes["test"])
        for code in self.codes:
            if f"xquad/{code}" in self.datasets:
                write_text(self.path(f"xquad/{code}"), formats.squad(self.say_paragraphs("xquad", test, code)))

        members = {}
        codes = self.covered("mlqa/1.0")
        for split in ("dev", "test"):
            own = self.paragraphs("mlqa", split, "en", sizes[split])
            said = {code: self.say_paragraphs(f"mlqa-{split}", own, code) for code in codes}
            for one in codes:
                for other in codes:
                    name = f"MLQA_V1/{split}/{split}-context-{one}-question-{other}.json"
                    members[name] = formats.squad(map(asked_by, said[one], said[other]))
        formats.write_zip(self.path("mlqa/1.0"), members)

    def tydiqa(self) -> None:
        """Languages other than English have but as much training data as there is for dev: nobody reads it."""
        sizes = self.settings["qa"]
        files: dict[str, list[dict]] = {"train": [], "dev": []}
        for code in self.covered("tydiqa/goldp-1.1-dev"):
            if code in TYDIQA_NAMES:
                train = self.paragraphs("tydiqa", "train", code, sizes["train" if code == "en" else "dev"])
                files["train"] += self.say_paragraphs(f"{TYDIQA_NAMES[code]}-train", train, code)
                if code == "en":
                    self.translated("tydiqa", "english-train", train)
                test = self.paragraphs("tydiqa", "test", code, sizes["test"])
                files["dev"] += self.say_paragraphs(f"{TYDIQA_NAMES[code]}-dev", test, code)
        for split, own in files.items():
            write_text(self.path(f"tydiqa/goldp-1.1-{split}"), formats.squad(own))

    def translated(self, task: str, name: str, own: list[Paragraph]) -> None:
        for code in self.codes:
            dataset = f"xtreme/{task}.translate-train.en-{code}"
            if dataset in self.datasets:
                noise = self.rng(task, "translation", code)
                write_text(self.path(dataset), formats.squad(self.say_paragraphs(name, own, code, noise=noise)))

    def paragraphs(self, upstream: str, split: str, code: str, questions: int) -> list[Paragraph]:
        """As many as have this number of questions. Sentences of an evaluation set are new in its first language."""
        rng = self.rng(upstream, code, split)
        own: list[Paragraph] = []
        while questions:
            drawn = paragraph(self.world, rng, held_out=split != "train")
            if sum(len(self.speakers["en"].say(event)) for event in drawn.events) > CONTEXT_WORDS:
                continue
            lines = [self.speakers[code].sentence(event) for event in drawn.events]
            if split != "train" and not all([self.is_new(code, line) for line in lines]):
                continue
            own.append(Paragraph(drawn.events, drawn.asks[:questions]))
            questions -= len(own[-1].asks)
        return own

    def say_paragraphs(
        self, name: str, own: list[Paragraph], code: str, noise: random.Random | None = None
    ) -> list[dict]:
        """In SQuAD's form. With noise: as machine translation leaves them, without the questions whose answer it got
        wrong."""
        speaker = self.speakers[code]
        said, number = [], 0
        for one in own:
            sentences = [speaker.say(event) for event in one.events]
            questions = [speaker.ask(ask.event) for ask in one.asks]
            kept = list(range(len(questions)))
            wanted = [(ask.sentence, answer_tokens(sentences[ask.sentence], ask.role)) for ask in one.asks]
            if noise:
                right = sentences
                sentences = [self.mistranslate_words(noise, code, tokens) for tokens in sentences]
                questions = [self.mistranslate_words(noise, code, tokens) for tokens in questions]
                kept = [i for i in kept if all(sentences[s][t] is right[s][t] for s, ts in [wanted[i]] for t in ts)]
            glue = " " if speaker.language.spaced else ""
            context, found = context_and_answers(sentences, wanted, glue)
            items = [
                {
                    "id": f"{name}-{number + i + 1}",
                    "question": detokenise(questions[i]),
                    "answers": [{"text": found[i][0], "answer_start": found[i][1]}],
                }
                for i in kept
            ]
            number += len(questions)
            if items:
                said.append({"context": context, "qas": items})
        return said

    def mining(self) -> None:
        """Both piles of a pair of languages hold the pairs; what else they hold has no translation in the other."""
        codes = [code for code in self.codes if f"bucc2018/{code}-en.sample-gold" in self.datasets]
        for part, split in (("sample", "dev"), ("training", "test")) if codes else ():
            rng = self.rng("mining", split)
            pairs, others = self.settings["mining"]["pairs"][split], self.settings["mining"]["others"][split]
            drawn = self.unsaid(
                ["en", *codes],
                pairs + 2 * others,
                lambda rng=rng: Storyteller(self.world, rng, 0.0).event(held_out=True),
            )
            for code in codes:
                own = self.rng("mining", split, code).sample(drawn, len(drawn))
                piles = {code: own[: pairs + others], "en": own[:pairs] + own[pairs + others :]}
                members, ids = {}, {}
                for side, events in piles.items():
                    order = self.rng("mining", split, code, side).sample(range(len(events)), len(events))
                    lines = [self.speakers[side].sentence(events[i]) for i in order]
                    members[f"bucc2018/{code}-en/{code}-en.{part}.{side}"] = formats.pile(side, lines)
                    ids[side] = {i: formats.bucc_id(side, at) for at, i in enumerate(order, start=1)}
                gold = sorted((ids[code][i], ids["en"][i]) for i in range(pairs))
                text = "".join(f"{one}\t{other}\n" for one, other in gold)
                members[f"bucc2018/{code}-en/{code}-en.{part}.gold"] = text
                formats.write_tar_bz2(self.path(f"bucc2018/{code}-en.{part}-gold"), members)

    def alignments(self) -> None:
        members = {}
        for code, folder in ALIGNED_FOLDERS.items():
            if code not in self.codes:
                continue
            rng = self.rng("alignment", code)
            events = self.unsaid(
                ["en", code],
                self.settings["alignment"],
                lambda rng=rng: Storyteller(self.world, rng, 0.0).event(held_out=True),
            )
            sides = folder.split("-")
            said = [[self.speakers[side].say(event) for side in sides] for event in events]
            for i, side in enumerate(sides):
                lines = [" ".join(word for word, _ in written_words(pair[i])) for pair in said]
                members[f"alignment-test-sets/{folder}/test.{side}"] = "".join(line + "\n" for line in lines)
            links = [
                f"{number} {one + 1} {other + 1} {kind}\n"
                for number, (first, second) in enumerate(said, start=1)
                for (one, other), kind in sorted(word_links(first, second).items())
            ]
            members[f"alignment-test-sets/{folder}/alignv2.txt"] = "".join(links)
        if members:
            formats.write_tgz(self.path("alignment/test-sets"), members)

    def translation(self) -> None:
        """WMT's training archives, each of several pairs, and its test sets of the same pairs."""
        sizes = self.settings["translation"]
        codes = [code for code in TRANSLATED if code in self.codes]
        for corpus in sizes["corpora"]:
            members = {}
            for code in codes:
                if code not in self.covered(corpus):
                    continue
                rng = self.rng("wmt", corpus, code)
                events = self.fresh_events(rng, sizes["train"] // len(sizes["corpora"]), held_out=False)
                rows, kinds = self.dirty_bitext(code, events, rng)
                names = [f"{WMT_MEMBERS[corpus]}.{code}-en.{side}" for side in sorted((code, "en"))]
                members |= {name: "".join(row[i] + "\n" for row in rows) for i, name in enumerate(names)}
                self.list_dirt(self.path(corpus), names[0], kinds)
            if members:
                formats.write_tgz(self.path(corpus), members)
        for code in codes:
            for side in ("en", code):  # also of what never asked whether it was new: the archives hold leaks of it
                self.said[side].update(map(self.speakers[side].sentence, self.test_events[side]))
            for split, year in NEWSTEST.items():
                self.newstest(year, code, sizes[split])
            if code in OLDER_DEV:
                self.newstest(OLDER_DEV[code], code, max(1, sizes["dev"] // 2))

    def newstest(self, year: int, code: str, n: int) -> None:
        rng, l3 = self.rng("newstest", year, code), self.languages[code].tatoeba
        events = self.unsaid(["en", code], n, lambda: Storyteller(self.world, rng, 0.0).event(held_out=True))
        for side, suffix in (("en", "eng"), (code, l3)):
            lines = map(self.speakers[side].sentence, events)
            formats.write_lines(self.path(f"newstest/{year}.eng-{l3}.{suffix}"), lines)

    def write_lists(self) -> None:
        rows = "".join(f"{name}\t{line}\t{kind}\n" for name, line, kind in sorted(self.dirt))
        write_text(self.out / "gold" / "dirt.tsv", "file\tline\tkind\n" + rows)
        files = sorted(p for p in self.out.rglob("*") if p.is_file() and p.relative_to(self.out).parts[0] != "gold")
        rows = [
            f"{p.relative_to(self.out).as_posix()}\t{p.stat().st_size}\t{sha256(p)}\n"
            for p in files
            if p.name != "MANIFEST.tsv"
        ]
        write_text(self.out / "MANIFEST.tsv", "path\tbytes\tsha256\n" + "".join(rows))


def asked_by(context: dict, other: dict) -> dict:
    """The paragraph with the questions of the same paragraph in another language."""
    asked = zip(context["qas"], other["qas"], strict=True)
    return {**context, "qas": [{**item, "question": question["question"]} for item, question in asked]}


def word_links(first: list[Token], second: list[Token]) -> dict[tuple[int, int], str]:
    """S where words of content or punctuation translate each other, P where function words do."""
    places = [
        {token: at for at, (_, own) in enumerate(written_words(tokens)) for token in own} for tokens in (first, second)
    ]
    links: dict[tuple[int, int], str] = {}
    for i, j in alignment(first, second):
        possible = {first[i].upos, second[j].upos} & set(FUNCTION_UPOS)
        link = (places[0][i], places[1][j])
        links[link] = "P" if possible and links.get(link) != "S" else "S"
    return links


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_settings(scale_path: Path) -> dict:
    settings = read_scale(scale_path).get("world")
    if not settings:
        raise UserError(f"{scale_path}: no key `world`; this scale uses real data and needs no mini-world")
    for key in KEYS:
        if key not in settings:
            raise UserError(f"{scale_path}: key world.{key} is missing")
    unknown = sorted(set(settings) - {*KEYS, *OPTIONAL_KEYS})
    if unknown:
        raise UserError(f"{scale_path}: unknown key world.{unknown[0]}; known: {', '.join((*KEYS, *OPTIONAL_KEYS))}")
    for corpus in settings.get("translation", {}).get("corpora", ()):
        if corpus not in WMT_MEMBERS:
            known = ", ".join(WMT_MEMBERS)
            raise UserError(f"{scale_path}: world.translation.corpora: `{corpus}` is not written here; known: {known}")
    for code in [*settings["languages"], *settings["bitext"]]:
        if code not in PROFILES:
            raise UserError(f"{scale_path}: world.languages: no stand-in for `{code}`; known: {', '.join(PROFILES)}")
    for code, like in settings.get("clones", {}).items():
        if code not in settings["languages"]:
            raise UserError(f"{scale_path}: world.clones: `{code}` is not among world.languages; name it there too")
        if like not in PROFILES:
            raise UserError(f"{scale_path}: world.clones: no stand-in for `{like}`; known: {', '.join(PROFILES)}")
    if "en" not in settings["languages"]:
        raise UserError(f"{scale_path}: world.languages must hold `en`, the pivot of all parallel text")
    return settings


def build_world(settings: dict, datasets_path: Path, out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)  # no file of another world may stay behind
    generator = Generator(settings, datasets_path, out)
    generator.xnli()
    generator.ud_pos()
    generator.tatoeba()
    generator.mono()
    generator.bitext()
    generator.paraphrases()
    generator.wikiann()
    generator.conll()
    generator.squad()
    generator.tydiqa()
    generator.mining()
    generator.alignments()
    if "translation" in settings:
        generator.translation()
    generator.write_lists()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=Path, required=True, help="scale YAML whose `world` key is built")
    parser.add_argument("--datasets", type=Path, default=Path("config/datasets.tsv"))
    parser.add_argument("--out", type=Path, required=True, help="folder of the mirror; it is emptied first")
    arguments = parser.parse_args()
    build_world(read_settings(arguments.scale), arguments.datasets, arguments.out)


if __name__ == "__main__":
    run_main(main)
