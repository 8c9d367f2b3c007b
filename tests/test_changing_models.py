"""Changes of models: they reach the model wherever it is, and leave nothing of the kit in what is saved of it."""

from __future__ import annotations

import copy
import gc
import importlib
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.utils import checkpoint
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import BertConfig, BertModel

from slowstep_probe import devices
from slowstep_probe.changing.alone import changed
from slowstep_probe.changing.changes import Changes
from slowstep_probe.changing.double_precision import is_double
from slowstep_probe.changing.effects import Effects
from slowstep_probe.changing.idle_gradients import IdleGradients, idle
from slowstep_probe.changing.intervention import Intervention
from slowstep_probe.changing.models import ModelChanges, computes_on
from slowstep_probe.changing.thrown_gradients import ThrownGradients
from slowstep_probe.changing.wanted import Wanted
from slowstep_probe.measured import WHY_NOT
from slowstep_probe.observed import observed
from slowstep_probe.patches import Patches
from slowstep_probe.probe.graphs import graph_facts
from slowstep_probe.probe.probe import Probe
from slowstep_probe.ranks.launchers import Launchers

SHAPE = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 32}
ATTENTION = {"model.attn_implementation": "sdpa"}
BF16 = {"training_arguments.bf16": True}


class Classifier(nn.Module):
    """A model of transformers within one of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = BertModel(BertConfig(**SHAPE, attn_implementation="eager"))
        self.head = nn.Linear(16, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(ids).last_hidden_state[:, 0])


def trained_once(forward: Callable[[torch.Tensor], torch.Tensor], *models: nn.Module) -> None:
    optimizer = torch.optim.SGD([p for model in models for p in model.parameters()], lr=0.1)
    forward(torch.zeros(2, 4, dtype=torch.long)).mean().backward()
    optimizer.step()


def test_attention_is_changed_within_a_model_of_the_users_own() -> None:
    model = Classifier()
    refused = ModelChanges(Wanted(ATTENTION)).settle([model], by_trainer=False)

    assert (refused, model.encoder.config._attn_implementation) == ([], "sdpa")


def test_only_models_without_any_place_for_a_change_refuse_it() -> None:
    """One that has a place is enough; of what stands beside it nothing is asked."""
    model = Classifier()

    assert ModelChanges(Wanted(ATTENTION)).settle([model.encoder, nn.Linear(2, 2)], by_trainer=False) == []
    (why,) = ModelChanges(Wanted(ATTENTION)).settle([nn.Linear(2, 2)], by_trainer=False)
    assert "none of transformers'" in why


@pytest.mark.parametrize("values", [ATTENTION, {"model.memory_format": "channels_last"}, ATTENTION | BF16])
def test_a_real_run_goes_on_where_a_module_has_no_place_for_a_change(values: dict[str, Any]) -> None:
    """The encoder and the head are called one after the other; the change is made where it can be."""
    model, dtypes = Classifier(), list[torch.dtype]()
    with changed(values, [], "returned") as made:

        def forward(ids: torch.Tensor) -> torch.Tensor:
            dtypes.append((hidden := model.encoder(ids).pooler_output).dtype)
            return model.head(hidden)

        trained_once(forward, model)
        trained_once(forward, model)

    assert {one.key for one in made} == {key for key in values if key != "model.memory_format"}
    assert (dtypes[-1] == torch.bfloat16) == (BF16.items() <= values.items())


def test_a_model_of_lora_is_changed_where_it_is_called() -> None:
    """Some versions of peft call the base by its forward alone, which no hook and no compiled graph would see."""
    base = BertModel(BertConfig(**SHAPE))
    model = get_peft_model(base, LoraConfig(target_modules=["query"]))
    ModelChanges(Wanted(BF16)).settle([model], by_trainer=False)
    model.base_model.forward = lambda *args, **kwargs: base.forward(*args, **kwargs)

    assert model(torch.zeros(2, 4, dtype=torch.long)).pooler_output.dtype == torch.bfloat16


def test_a_model_in_double_precision_trains_on_in_single() -> None:
    """Its program sees 64 bits as before, its optimizer goes on, and it learns the same but for rounding."""
    torch.manual_seed(0)
    x, model = torch.randn(8, 4, dtype=torch.float64), nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).double()
    unchanged = copy.deepcopy(model)

    def trained(one: nn.Module, values: dict[str, Any]) -> list[float]:
        losses, changes, patches = [], ModelChanges(Wanted(values)), Patches()
        changes.attach(patches)
        optimizer = torch.optim.AdamW(one.parameters(), lr=0.1)
        patches.remove()
        for step in range(6):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(one(x), x)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if values and step == 0:
                assert changes.settle([one], by_trainer=False) == []
        assert loss.dtype is torch.float64
        assert {v.dtype for s in optimizer.state.values() for v in s.values()} <= {torch.float32, one[0].weight.dtype}
        return losses

    before, after = trained(unchanged, {}), trained(model, {"model.double_precision": False})

    assert {part.dtype for part in (*model.parameters(), *model.buffers())} == {torch.float32, torch.int64}
    assert before == pytest.approx(after, rel=1e-4)
    assert before[1:] != after[1:]
    assert not is_double(Mixed())
    (why,) = ModelChanges(Wanted({"model.double_precision": False})).settle([nn.Linear(2, 2)], by_trainer=False)
    assert "64 bits" in why


class Mixed(nn.Module):
    """One number in double precision beside many in single, as a temperature from numpy is."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.temperature = nn.Linear(4, 4), nn.Parameter(torch.tensor(0.1, dtype=torch.float64))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.LBFGS])
def test_single_precision_begins_between_steps(optimizer: Any) -> None:
    """Two passes of one step are of one kind, also where the change is made in the first of them; so are those of a
    closure. A look without gradients in between is no reason to begin."""
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).double()
    with changed({"model.double_precision": False}, [], "returned") as made:
        of_weights = optimizer(model.parameters(), lr=0.01)
        for _ in range(4):

            def closure() -> torch.Tensor:
                of_weights.zero_grad()
                x = torch.randn(8, 4, dtype=torch.float64)
                loss = nn.functional.mse_loss(model(x), model(x + 1))
                loss.backward()
                return loss

            of_weights.step(closure)
            with torch.inference_mode():
                model(torch.randn(8, 4, dtype=torch.float64))

    assert {one.key for one in made} == {"model.double_precision"}
    assert model[0].weight.dtype is torch.float32


def test_two_models_in_double_precision_train_on_in_single() -> None:
    """Each has its own optimizer, as a generator and its critic do."""
    models = [nn.Linear(4, 4).double(), nn.Linear(4, 4).double()]
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.01) for one in models]
    with changed({"model.double_precision": False}, [], "returned"):
        optimizers[0].state["steps"] = 3  # a program may keep what it likes there
        for _ in range(3):
            for one, optimizer in zip(models, optimizers, strict=True):
                one(torch.randn(8, 4, dtype=torch.float64)).mean().backward()
                optimizer.step()
    assert {one.weight.dtype for one in models} == {torch.float32}


def trained_for(
    steps: int, model: nn.Module, optimizer: torch.optim.Optimizer | None = None, x: torch.Tensor | None = None
) -> torch.Tensor:
    """Train a model, and return its last output."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        output = model(torch.ones(2, 4) if x is None else x)
        output.mean().backward()
        optimizer.step()
    return output


def test_a_real_run_changes_every_model_that_it_trains() -> None:
    """Those of several folds are changed alike, and none is kept when its fold is over. So is one whose optimizer was
    there from the beginning, and that is trained when another one has long been."""
    gone = []
    with changed(BF16, [], "returned") as made:
        for _ in range(3):
            model = nn.Linear(4, 4)
            assert trained_for(12, model).dtype is torch.bfloat16
            gone.append(weakref.ref(model))
            del model
            gc.collect()
            assert gone[-1]() is None
        models = [nn.Linear(4, 4), nn.Linear(4, 4)]
        optimizers = [torch.optim.SGD(one.parameters(), lr=0.01) for one in models]
        for one, optimizer in zip(models, optimizers, strict=True):
            assert trained_for(20, one, optimizer).dtype is torch.bfloat16

    assert [one.name for one in made] == ["Linear"] * 5


def test_a_real_run_compiles_each_of_many_models_by_one_graph(nothing_compiled: None) -> None:
    counters = importlib.import_module("torch._dynamo.utils").counters
    keys = ("training_arguments.torch_compile", "training_arguments.torch_compile_backend")
    with changed(dict(zip(keys, (True, "eager"), strict=True)), [], "returned") as made:
        for _ in range(10):
            trained_for(10, OwnForward(nn.Linear(4, 4), nn.Linear(4, 4)))

    assert len(made) == 10
    assert counters["frames"]["ok"] <= 2


def test_a_teacher_that_nobody_froze_is_changed_where_it_is_called_without_gradients() -> None:
    """One that is frozen stays as it is, as in a trial."""
    teacher, frozen, student = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 4)
    with changed(BF16, [], "returned"):
        optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
        for _ in range(3):
            with torch.no_grad():
                dtypes = [one(torch.ones(2, 4)).dtype for one in (teacher, frozen)]
            trained_for(1, student, optimizer)

    assert dtypes == [torch.bfloat16, torch.float32]


def test_a_model_that_is_evaluated_before_it_trains_can_still_train() -> None:
    """Its weights are no tensors of inference mode after the change. A lazy one is changed when it has its weights."""
    model = nn.Sequential(nn.LazyConv2d(4, 1), nn.Conv2d(4, 2, 1))
    x = torch.ones(2, 3, 4, 4)
    with changed({"model.memory_format": "channels_last"}, [], "returned") as made:
        model(x)
        with torch.inference_mode():
            model(x)
        trained_for(2, model, x=x)

    assert [one.name for one in made] == ["Sequential"]
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)


def test_models_that_train_by_turns_are_all_changed_in_a_trial() -> None:
    """The second one is known when the second step has ended, and the first one is changed once."""
    models = [nn.Linear(4, 4), nn.Linear(4, 4)]
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.01) for one in models]

    def at_step_boundary() -> None:
        if probe.steps.updates:
            changes.after_early_step()
        else:
            probe.open()

    probe = Probe(at_step_boundary=at_step_boundary)
    changes = Changes(Intervention(values=BF16), probe, pytest.fail, Launchers(None, ""))
    with changes.attached():
        dtypes = [trained_for(1, models[step % 2], optimizers[step % 2]).dtype for step in range(6)]

    assert dtypes[-2:] == [torch.bfloat16] * 2
    assert [one.name for one in changes.interceptors.wanted.made] == ["Linear"] * 2


def compiled_whole(model: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.compile(model, backend="eager", fullgraph=True)


def compiled_in_place(model: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    model.compile(backend="eager", fullgraph=True)
    return model


def compiled_within(model: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    return torch.compile(lambda x: model(x), backend="eager", fullgraph=True)


FLAG, BF16 = {"process.cudnn_benchmark": True}, {"training_arguments.bf16": True}


@pytest.mark.parametrize(
    ("compiled", "values"),
    [(made, FLAG) for made in (compiled_whole, compiled_in_place, compiled_within)]
    + [(made, BF16) for made in (compiled_whole, compiled_in_place)],
)
def test_a_compiled_program_keeps_its_graph(
    compiled: Callable[[nn.Module], Any],
    values: dict[str, Any],
    nothing_compiled: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No change breaks the graph of a program that runs for real, and none compiles it more than once anew."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    counters = importlib.import_module("torch._dynamo.utils").counters
    with changed(values, [], "returned") as made:
        model = OwnForward(nn.Linear(4, 4), nn.Linear(4, 4))
        optimizer, call = torch.optim.SGD(model.parameters(), lr=0.01), compiled(model)
        dtypes = []
        for _ in range(12):
            result = call(torch.ones(2, 4))
            result.mean().backward()
            optimizer.step()
            dtypes.append(result.dtype)

    assert [one.key for one in made] == [*values]
    assert not counters["graph_break"]
    assert counters["frames"]["ok"] <= 2
    assert dtypes[-1] is (torch.bfloat16 if values is BF16 else torch.float32)


@pytest.mark.parametrize("dropped_by", ["optimizer", "model"])
def test_gradients_that_no_optimizer_uses_are_computed_no_more(dropped_by: str) -> None:
    """Losses stay as they are to the last bit, and what an optimizer gets later has its gradients again."""
    losses: dict[bool, list[float]] = {}
    for off in (False, True):
        torch.manual_seed(0)
        x, model = torch.randn(8, 4), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        looks, patches = IdleGradients(lambda model=model: [model]), Patches()
        looks.attach(patches)
        with changed({"model.idle_gradients": False} if off else {}, [], "returned") as made:
            optimizer = torch.optim.SGD(model[1].parameters(), lr=0.1)
            losses[off] = []
            for step in range(8):
                loss = model(x).square().mean()
                (optimizer if dropped_by == "optimizer" else model).zero_grad()
                loss.backward()
                optimizer.step()
                losses[off].append(loss.item())
                if step == 4:
                    assert looks.seen != off
                    assert [p.requires_grad for p in model.parameters()] == [not off, not off, True, True]
                    optimizer.add_param_group({"params": list(model[0].parameters())})
        patches.remove()
        assert {one.key for one in made} == ({"model.idle_gradients"} if off else set())
        assert all(p.requires_grad and p.grad is not None for p in model.parameters())

    assert losses[True] == losses[False]


def test_only_gradients_that_are_known_to_be_idle_are_told() -> None:
    """An optimizer over copies of the weights uses gradients all the same; where none are asked for, none are idle."""
    model, teacher = nn.Linear(4, 4), nn.Linear(4, 4)
    for one in (model, teacher):
        one(torch.ones(1, 4)).sum().backward()
    own = torch.optim.SGD(model.parameters(), lr=0.1)
    of_copies = torch.optim.SGD([model.bias, model.weight.detach().clone().requires_grad_()], lr=0.1)

    assert {id(p) for p in idle([model, teacher], [own])} == {id(p) for p in teacher.parameters()}
    assert idle([model, teacher], [of_copies]) == []
    assert idle([model, teacher], []) == []
    assert idle([model, teacher], [own, torch.optim.SGD(teacher.parameters(), lr=0.1)]) == []
    for weight in teacher.parameters():
        weight.grad = None
    assert idle([model, teacher], [own]) == []


def test_weights_that_a_program_updates_itself_have_no_idle_gradients() -> None:
    model, by_hand = nn.Linear(4, 4), nn.Linear(4, 4)
    looks, patches = IdleGradients(lambda: [model, by_hand]), Patches()
    looks.attach(patches)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        (model(torch.ones(1, 4)) + by_hand(torch.ones(1, 4))).square().sum().backward()
        optimizer.step()
        for weight in by_hand.parameters():
            weight.data -= 0.01 * weight.grad
        assert not looks.seen
        model.zero_grad()
        by_hand.zero_grad()
    patches.remove()


def test_autocast_is_told_at_each_line_that_calls_a_model() -> None:
    """What is known first is the line of the loop; a call has a line of its own."""
    with changed(BF16, [], "returned") as made:
        model = nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(4):
            first = model(torch.ones(2, 4)).mean()
            second = model(torch.zeros(2, 4)).mean()
            (first + second).backward()
            optimizer.step()

    rows = Path(__file__).read_text(encoding="utf-8").splitlines()
    assert ["first", "second"] == sorted(rows[one.place.line - 1].split()[0] for one in made)


def adversarial(steps: int) -> Iterator[tuple[nn.Linear, nn.Linear, torch.Tensor]]:
    """Train a generator and a discriminator by turns, and yield both with a leaf of the loss that is no weight."""
    torch.manual_seed(0)
    maker, judge, scale = nn.Linear(4, 4), nn.Linear(4, 1), torch.ones((), requires_grad=True)
    of_maker, of_judge = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (maker, judge))
    for _ in range(steps):
        judge.zero_grad()
        (scale * judge(maker(torch.ones(2, 4)))).square().mean().backward()
        nn.utils.clip_grad_norm_(judge.parameters(), 1e-3)
        of_judge.step()
        maker.zero_grad()
        (-judge(maker(torch.ones(2, 4)))).mean().backward()
        of_maker.step()
        yield maker, judge, scale


@pytest.mark.parametrize("off", [False, True])
def test_gradients_that_are_thrown_away_are_computed_no_more(off: bool) -> None:
    """Each pass computes what its own optimizer uses, and what is no weight; the weights become what they were."""
    *_, (expected, _, _) = adversarial(50)
    met, told, patches = list[nn.Module](), list[str](), Patches()
    looks = ThrownGradients(lambda: met)
    looks.attach(patches)
    if off:
        ThrownGradients(lambda: met, lambda: told.append("line")).attach(patches)
    for maker, judge, scale in adversarial(50):  # far beyond the passes that are looked at
        met[:] = [maker, judge]
        gradients = [maker.weight.grad, judge.weight.grad, scale.grad]
    patches.remove()

    assert looks.seen != off
    assert told == ["line"] * 2 * off
    assert all(gradient is not None for gradient in gradients)
    assert all(map(torch.equal, expected.parameters(), maker.parameters()))


def test_gradients_are_looked_at_no_longer_where_an_optimizer_uses_all() -> None:
    """The looks take time, which no step may take that is measured."""
    model, looked, patches = nn.Linear(4, 1), list[int](), Patches()
    ThrownGradients(lambda: looked.append(1) or [model]).attach(patches)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(12):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).mean().backward()
        optimizer.step()
        if step == 6:
            looked.clear()
    patches.remove()

    assert looked == []


def steps_along(model: nn.Linear, _: list[torch.Tensor]) -> None:
    """Step along the gradients of the first pass, as SAM does."""
    for weight in model.parameters():
        weight.data.add_(weight.grad, alpha=0.01)


def writes(model: nn.Linear, kept: list[torch.Tensor]) -> None:
    """Keep the gradients of the first pass, to write them into those of the second one."""
    kept += [weight.grad.clone() for weight in model.parameters()]


def uses_now_and_then(model: nn.Linear, kept: list[torch.Tensor]) -> None:
    """Do nothing with them; an optimizer uses them now and then."""


@pytest.mark.parametrize("use", [steps_along, writes, uses_now_and_then])
@pytest.mark.parametrize("clipped", [False, True])
def test_gradients_that_something_uses_are_not_thrown_away(use: Callable[..., None], clipped: bool) -> None:
    torch.manual_seed(0)
    model, patches = nn.Linear(4, 3), Patches()
    looks = ThrownGradients(lambda: [model])
    looks.attach(patches)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        kept: list[torch.Tensor] = []
        optimizer.zero_grad()
        model(torch.randn(2, 4)).square().mean().backward()
        use(model, kept)
        if use is uses_now_and_then and step % 3 == 2:
            optimizer.step()
        optimizer.zero_grad()
        model(torch.randn(2, 4)).square().mean().backward()
        for weight, gradient in zip(model.parameters(), kept, strict=False):
            weight.grad += gradient
        if clipped:
            nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
        optimizer.step()
    patches.remove()

    assert not looks.seen


def test_idle_gradients_are_found_without_a_wait_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of weights on a device is read until somebody asks, and nothing is done while a graph is captured."""
    model, teacher = nn.Linear(4, 4), nn.Linear(4, 4)
    done = list[str]()

    class Noting(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            done.append(str(func))
            return func(*args, **(kwargs or {}))

    def step() -> list[str]:
        (model(torch.ones(1, 4)) + teacher(torch.ones(1, 4))).square().sum().backward()
        done.clear()
        with Noting():
            optimizer.step()
        return [name for name in done if name.startswith(("aten.sum", "aten._local_scalar_dense"))]

    looks, patches = IdleGradients(lambda: [model, teacher]), Patches()
    looks.attach(patches)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sums = ["aten.sum.default", "aten.sum.default"]

    assert [sums, sums] == [step(), step()]
    assert looks.seen
    monkeypatch.setattr(devices, "is_capturing", lambda: True)
    assert [] == step()
    patches.remove()


def test_a_model_that_is_saved_whole_is_read_without_the_kit(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 1))
    wanted = Wanted(BF16 | {"model.memory_format": "channels_last"})
    assert ModelChanges(wanted).settle([model], by_trainer=False) == []
    torch.save({"model": copy.deepcopy(model)}, tmp_path / "model.pt")
    program = (
        "import sys, torch\n"
        "sys.meta_path.insert(0, type('No', (), {'find_spec': staticmethod(lambda name, *_: (_ for _ in ()).throw("
        "ImportError(name)) if name.startswith('slowstep') else None)}))\n"
        "model = torch.load('model.pt', weights_only=False)['model']\n"
        "print(model(torch.ones(1, 3, 2, 2)).dtype)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout == "torch.float32\n", done.stderr


def test_a_function_is_replaced_by_whatever_name_others_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch's own wrapper of modules holds checkpoint."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    patches, effects = Patches(), Effects()
    effects.attach(patches)
    layer = checkpoint_wrapper(nn.Linear(2, 2))
    layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
    original = checkpoint.checkpoint.__wrapped__  # type: ignore[attr-defined]
    patches.remove()

    assert effects.checkpointed
    assert checkpoint.checkpoint is original


@pytest.mark.parametrize(("training", "arithmetic"), [(True, "bf16"), (False, "no")])
def test_the_arithmetic_is_that_of_training(training: bool, arithmetic: str) -> None:
    """A teacher or a validation may compute in another one."""
    patches, effects = Patches(), Effects()
    effects.attach(patches)
    with torch.set_grad_enabled(training), torch.autocast("cpu", torch.bfloat16):
        pass
    patches.remove()

    assert effects.facts([], None)["autocast"] == arithmetic


class OwnForward(nn.Sequential):
    """A model whose forward pass is its user's code."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1


@pytest.mark.parametrize("kind", [nn.Sequential, OwnForward])
def test_a_model_is_compiled_whatever_its_class(kind: type[nn.Sequential], nothing_compiled: None) -> None:
    """Dynamo compiles no call of PyTorch's own classes, as `torch.nn.Sequential` and its `compile()` show."""
    torch.manual_seed(0)
    model, ids = kind(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4)
    expected = model(ids)
    wanted = {"training_arguments.torch_compile": True, "training_arguments.torch_compile_backend": "eager"}
    with Probe().attached():
        refused = ModelChanges(Wanted(wanted)).settle([model], by_trainer=False)
        found = model(ids)

    assert refused == []
    assert torch.equal(found, expected)
    assert importlib.import_module("torch._dynamo.utils").counters["frames"]["ok"] == 1
    assert graph_facts(model)["compiled"] is True
    assert list(copy.deepcopy(model).state_dict()) == ["0.weight", "0.bias"]
    assert torch.equal(pickle.loads(pickle.dumps(model))(ids), expected)


@pytest.mark.parametrize(
    ("switches", "why"),
    [
        ({}, "Dynamo made no graph of it"),
        ({"disable": True}, "Dynamo is switched off"),
        ({"suppress_errors": True}, "its errors are suppressed"),
    ],
)
def test_what_no_graph_runs_of_is_not_compiled(switches: dict[str, bool], why: str, nothing_compiled: None) -> None:
    """By its own `compile()` a Sequential is not, nor is anything where Dynamo is off, or where it fails in silence."""
    dynamo = importlib.import_module("torch._dynamo")

    def fails(*_: Any) -> None:
        raise RuntimeError

    model = OwnForward(nn.Linear(4, 4)) if switches else nn.Sequential(nn.Linear(4, 4))
    probe = Probe()
    with probe.attached(), dynamo.config.patch(switches):
        model.compile(backend=fails if switches else "eager")
        model(torch.ones(2, 4)).mean().backward()
        found = observed(probe)

    assert found["compiled"] is False
    assert why in found[f"{WHY_NOT}compiled"]


@pytest.mark.parametrize(
    ("weights", "inputs", "kind"),
    [("cpu", "cpu", "cpu"), ("cpu", "meta", "meta"), ("meta", "cpu", "meta"), ("meta", "meta", "meta")],
)
def test_autocast_is_for_the_device_that_computes(weights: str, inputs: str, kind: str) -> None:
    """Weights that are kept in the host's memory are used where the inputs lie; a model may move its inputs itself."""
    model = torch.nn.Linear(2, 1, device=weights)
    batch = {"x": [torch.zeros(1, 2, device=inputs), "a name"]}

    assert kind == computes_on(model, ((), batch))
