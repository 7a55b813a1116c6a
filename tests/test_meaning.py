"""Recall by meaning: a small real model made here, its vectors in the index, and nothing that could be fetched."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from periplus.base.errors import UsageError
from periplus.journal import Writer
from periplus.memory import Memory
from periplus.memory.retrieval.search import Filters
from periplus.memory.text.word_vectors import PACKAGES, TENSORS, TOKENIZER, open_meaning
from periplus.project import Project

np = pytest.importorskip("numpy")
pytest.importorskip("safetensors")
pytest.importorskip("tokenizers")

ADA = Writer("ada", "who_0000000000000001", "", 1)
TOPICS = {
    "boat": "hull keel mast rudder vessel sailing ship",
    "bread": "dough oven yeast flour baking loaf crust",
    "clock": "pendulum escapement dial hands ticking watch gear",
}
FILLING = "the a of is in we with for and at when how what do it our".split()


def make_model(folder, *, seed=1, extra=None, dtype="float16"):
    """Vectors in which the words of a topic lie together, and a tokenizer of whole words that is trained on them."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    texts = [*TOPICS.values(), " ".join(TOPICS), " ".join(FILLING)]
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["[UNK]"]))
    chance = np.random.default_rng(seed)
    vectors = chance.normal(0, 0.2, (tokenizer.get_vocab_size(), 24))
    for place, (topic, words) in enumerate(TOPICS.items()):
        for word in (topic, *words.split()):
            vectors[tokenizer.token_to_id(word), place * 8 : place * 8 + 8] += 2.0
    os.makedirs(folder, exist_ok=True)
    tokenizer.save(os.path.join(folder, TOKENIZER))
    save_file(
        {"embeddings": np.ascontiguousarray(vectors.astype(dtype)), **(extra or {})}, os.path.join(folder, TENSORS)
    )
    return os.fspath(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def place(tmp_path):
    root = Project.init(os.fspath(tmp_path)).root
    with Project(root, ADA) as project:
        for text in ("The hull has a new mast", "We knead the dough with flour", "The pendulum moves the hands", "Paint it green",
                     "Ask in the harbour", "Green is for go", "Nobody counts them", "Keys hang at the door", "The cat sleeps"):  # fmt: skip
            project.remember(Memory("decision", text))
    return root


def texts(project, question, **filters):
    return [hit.text for hit in project.recall(question, filters=Filters(**filters)).hits]


def vectors_in(project):
    import sqlite3

    db = sqlite3.connect(project.journal.layout.index)
    found = db.execute("SELECT id, model, vector FROM vectors ORDER BY id").fetchall()
    db.close()
    return found


def test_what_no_word_finds_is_found_by_its_meaning(place, model):
    with Project(place, ADA) as project:
        assert texts(project, "rudder of the vessel") == []
    with Project(place, ADA, embeddings=model) as project:
        (first, *_) = project.recall("rudder of the vessel").hits
        assert (first.text, first.why) == ("The hull has a new mast", ("has a similar meaning",))
        assert texts(project, "yeast in the oven")[0] == "We knead the dough with flour"
        assert texts(project, "rudder of the vessel", types=("trap",)) == []
        assert texts(project, "xyzzy frobnicates") == []


def test_what_words_find_is_ranked_as_without_and_comes_first(place, model):
    with Project(place, ADA) as without, Project(place, ADA, embeddings=model) as with_model:
        for question in ("green hull", "paint the keys", "who counts the hands", "the cat at the harbour"):
            plain, hits = without.recall(question).hits, with_model.recall(question).hits
            assert [(hit.text, hit.score) for hit in hits[: len(plain)]] == [(hit.text, hit.score) for hit in plain]
            assert all(hit.why == ("has a similar meaning",) for hit in hits[len(plain) :])


def test_vectors_are_made_once_go_with_their_documents_and_follow_the_model(place, model, tmp_path):
    with Project(place, ADA, embeddings=model) as project:
        texts(project, "rudder")
        first = vectors_in(project)
        assert len(first) == 9
        new = project.remember(Memory("decision", "A ship needs a keel")).entity
        assert texts(project, "rudder of a vessel")[0] in ("A ship needs a keel", "The hull has a new mast")
        second = vectors_in(project)
        assert {*first} < {*second}
        assert len(second) == 10
        project.work.evolve(new.item_id, "Nobody sails any more")
        texts(project, "rudder")
        ids = {
            row[0] for row in project.journal.index.db.execute("SELECT id FROM documents WHERE item_type <> 'trail'")
        }
        assert {row[0] for row in vectors_in(project)} == ids
    other = make_model(tmp_path / "other", seed=2)
    with Project(place, ADA, embeddings=other) as project:
        texts(project, "rudder")
        assert {row[1] for row in vectors_in(project)}.isdisjoint(row[1] for row in second)
    for suffix in ("", "-wal", "-shm"):
        if os.path.exists(f"{place}/index.sqlite{suffix}"):
            os.unlink(f"{place}/index.sqlite{suffix}")
    with Project(place, ADA, embeddings=other) as project:
        assert texts(project, "rudder of the vessel")


def test_the_index_with_vectors_stays_as_it_is_when_it_is_opened_again(place, model):
    with Project(place, ADA, embeddings=model) as project:
        texts(project, "rudder")
        made = vectors_in(project)
        path = project.journal.layout.index
        index = os.stat(path).st_ino
    for embeddings in (model, None, model):
        with Project(place, ADA, embeddings=embeddings) as project:
            assert texts(project, "hull")
            assert not project.journal.index.is_damaged
            assert vectors_in(project) == made
        assert os.stat(path).st_ino == index


@pytest.mark.slow
def test_a_store_that_somebody_writes_in_is_asked_all_the_same(place, model):
    import sqlite3

    db = sqlite3.connect(f"{place}/index.sqlite", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    with Project(place, ADA, embeddings=model) as project:
        assert texts(project, "rudder of the vessel")[0] == "The hull has a new mast"
    db.execute("ROLLBACK")
    db.close()


def test_mapping_and_weights_of_a_model_count(tmp_path):
    plain = open_meaning(make_model(tmp_path / "plain", dtype="float32"))
    size = plain._vectors.shape[0]
    same = {"mapping": np.arange(size, dtype=np.int64), "weights": np.ones(size, dtype=np.float32)}
    whole = open_meaning(make_model(tmp_path / "same", dtype="float32", extra=same))
    asked = ["hull of bread", "", "xyzzy"]
    assert np.allclose(plain.vectors_of(asked), whole.vectors_of(asked))
    assert not plain.vectors_of(asked)[1:].any()
    only = open_meaning(make_model(tmp_path / "only", dtype="float32", extra={**same, "weights": np.eye(1, size, plain._tokenizer.token_to_id("hull"), dtype=np.float32)[0]}))  # fmt: skip
    assert np.allclose(only.vectors_of(["hull of bread"]), plain.vectors_of(["hull"]), atol=1e-6)


def broken(folder, how):
    make_model(folder)
    if how == "gone":
        os.unlink(folder / TENSORS)
    elif how == "folder":
        os.unlink(folder / TOKENIZER)
        os.mkdir(folder / TOKENIZER)
    elif how == "tokenizer":
        (folder / TOKENIZER).write_text("{}")
    elif how == "tensors":
        (folder / TENSORS).write_bytes(b"\xff" * 100)
    elif how == "names":
        from safetensors.numpy import save_file

        save_file({"something": np.zeros(3)}, folder / TENSORS)
    return os.fspath(folder)


@pytest.mark.parametrize("how", ["gone", "folder", "tokenizer", "tensors", "names"])
def test_a_folder_without_a_model_turns_it_off_and_doctor_says_so(place, tmp_path, how):
    folder = broken(tmp_path / "model", how)
    with pytest.raises(UsageError, match="holds no model of word vectors"):
        open_meaning(folder)
    with Project(place, ADA, embeddings=folder) as project:
        assert texts(project, "green hull")
        (told,) = [one for one in project.examine().problems if "search by meaning" in one.what]
        assert "PERIPLUS_EMBEDDINGS" in told.mend


def test_without_the_extra_it_is_off_and_doctor_says_what_to_install(place, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with Project(place, ADA, embeddings=model) as project:
        assert texts(project, "green hull")
        (told,) = [one for one in project.examine().problems if "search by meaning" in one.what]
        assert "pip install 'periplus[embeddings]'" in told.mend


def test_a_package_that_carries_a_model_is_named_by_its_name(tmp_path, monkeypatch):
    """Its files are read; its code, which here ends the process, is not run."""
    (tensors, tokens), folder = PACKAGES["wordllama"], tmp_path / "site" / "wordllama"
    plain = make_model(tmp_path / "plain")
    for source, name in ((TENSORS, tensors), (TOKENIZER, tokens)):
        (folder / name).parent.mkdir(parents=True)
        os.rename(os.path.join(plain, source), folder / name)
    (folder / "__init__.py").write_text("import os; os._exit(98)")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert open_meaning("wordllama").vectors_of(["hull of bread"]).any()
    (folder / tokens).unlink()
    with pytest.raises(UsageError, match="holds no model of word vectors: there is no l2_supercat"):
        open_meaning("wordllama")


def test_a_package_that_is_not_installed_is_told(monkeypatch):
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(UsageError, match="embeddings need wordllama, which is not installed"):
        open_meaning("wordllama")


def test_the_model_of_the_extra_finds_by_its_meaning(place):
    pytest.importorskip("wordllama")
    with Project(place, ADA, embeddings="wordllama") as project:
        assert texts(project, "a feline takes a nap")[0] == "The cat sleeps"
        assert texts(project, "baking bread")[0] == "We knead the dough with flour"


def test_the_command_takes_the_users_folder_and_opens_no_socket(place, model):
    """A socket of any kind ends the process; what a project's own settings say of models is not looked at."""
    with open(f"{place}/config.toml", "a", encoding="utf-8") as file:
        file.write('\n[recall]\nembeddings = "/nonexistent"\n')
    code = (
        "import sys, os\ndef watch(event, arguments):\n    if event.startswith('socket.'):\n        os._exit(99)\n"
        "sys.addaudithook(watch)\nfrom periplus.cli.entry import run\nrun()\n"
    )
    argv = [sys.executable, "-c", code, "recall", "rudder of the vessel", "--json", "--store", place]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERIPLUS_")}
    done = subprocess.run(
        argv, env={**environment, "PERIPLUS_EMBEDDINGS": model}, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hits"][0]["why"] == ["has a similar meaning"]
    blocked = subprocess.run([sys.executable, "-c", code.replace("from periplus.cli.entry import run\nrun()", "import socket; socket.socket()")],
                             capture_output=True, timeout=60, check=False)  # fmt: skip
    assert blocked.returncode == 99  # the watch does watch
